// One function and its answer, two at once, and two at once in a stream.
import { FunctionCallingConfigMode } from "@google/genai";

import { asking, client, declarations, named, says } from "./google-client.mjs";
import { collect, PARALLEL, print, WEATHER } from "./common.mjs";

const config = { tools: [{ functionDeclarations: declarations.slice(0, 1) }] };
const first = await client.models.generateContent(asking(WEATHER, config));
const [call] = first.functionCalls;
const answered = {
  role: "user",
  parts: [{ functionResponse: { id: call.id, name: call.name, response: { output: "18 degrees" } } }],
};
const second = await client.models.generateContent({
  ...asking("", config),
  contents: [says(WEATHER), first.candidates[0].content, answered],
});

const both = asking(PARALLEL, { tools: [{ functionDeclarations: declarations }] });
const parallel = await client.models.generateContent(both);
const chunks = await collect(await client.models.generateContentStream(both));

const toolConfig = { functionCallingConfig: { mode: FunctionCallingConfigMode.NONE } };
const none = await client.models.generateContent(asking("Say hello", { ...config, toolConfig }));

print({
  reason: first.candidates[0].finishReason,
  called: named([call]),
  answer: second.text,
  answerReason: second.candidates[0].finishReason,
  parallel: named(parallel.functionCalls),
  ids: new Set(parallel.functionCalls.map(({ id }) => id)).size,
  streamed: named(chunks.flatMap(({ functionCalls }) => functionCalls ?? [])),
  reasons: chunks.map(({ candidates }) => candidates?.[0]?.finishReason).filter(Boolean),
  none: [none.text, named(none.functionCalls)],
});
