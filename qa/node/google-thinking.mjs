// Thoughts before the answer, streamed.
import { asking, client } from "./google-client.mjs";
import { collect, print } from "./common.mjs";

const config = { thinkingConfig: { includeThoughts: true, thinkingBudget: 1024 } };
const chunks = await collect(await client.models.generateContentStream(asking("Say hello", config)));
const parts = chunks.flatMap(({ candidates }) => candidates?.[0]?.content?.parts ?? []);
const joined = (thought) =>
  parts
    .filter((part) => Boolean(part.thought) === thought)
    .map(({ text }) => text ?? "")
    .join("");
print({
  firstIsThought: parts[0].thought ?? false,
  thoughts: joined(true),
  text: joined(false),
  thoughtTokens: chunks.at(-1).usageMetadata.thoughtsTokenCount ?? null,
});
