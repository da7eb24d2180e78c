// A whole answer, the same streamed, and what goes wrong.
import { generateText, streamText } from "ai";

import { collect, print } from "./common.mjs";
import { asking, caught, modelOf } from "./vercel.mjs";

const ask = asking("Say hello", { instructions: "Be brief.", maxOutputTokens: 500 });
const whole = await generateText(ask);
const stream = streamText(ask);
const pieces = await collect(stream.textStream);
const wrong = { onError: () => {}, prompt: "hi" };

print({
  text: whole.text,
  reason: whole.finishReason,
  usage: whole.usage,
  warnings: whole.warnings ?? [],
  pieces: pieces.length,
  streamed: pieces.join(""),
  streamedReason: await stream.finishReason,
  streamedUsage: await stream.usage,
  unknownModel: await caught(() => generateText({ ...ask, model: modelOf("no-such-model") })),
  wrongKey: await caught(() => generateText({ ...ask, model: modelOf(undefined, "wrong-key") })),
  streamedError: await caught(async () => {
    for await (const part of streamText({ ...ask, ...wrong, model: modelOf("no-such-model") }).stream) {
      if (part.type === "error") throw part.error;
    }
  }),
});
