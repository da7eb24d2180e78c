// Vectors, pictures and speech. The further argument says which; files come and go as base64.
import { caught, client } from "./google-client.mjs";
import { collect, model, print, rest } from "./common.mjs";

const [what, given = "{}"] = rest;
const { contents, config } = JSON.parse(given);
const asked = { model, contents, config };
const filesIn = (answer) =>
  (answer.candidates?.[0]?.content?.parts ?? []).flatMap(({ inlineData }) => (inlineData ? [inlineData] : []));

const doings = {
  embed: async () => (await client.models.embedContent(asked)).embeddings.map(({ values }) => values),
  generate: async () => {
    const answer = await client.models.generateContent(asked);
    return {
      files: filesIn(answer),
      reason: answer.candidates[0].finishReason,
      tokens: answer.usageMetadata?.totalTokenCount ?? null,
    };
  },
  stream: async () => {
    const chunks = await collect(await client.models.generateContentStream(asked));
    return { files: chunks.flatMap(filesIn), reason: chunks.at(-1).candidates?.[0]?.finishReason ?? null };
  },
  error: async () => caught(() => client.models.generateContent(asked)),
};

print(await doings[what]());
