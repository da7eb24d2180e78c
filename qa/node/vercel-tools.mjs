// Tools over several steps: the SDK runs them and goes on until the model answers.
import { generateText, isStepCount, streamText } from "ai";

import { PARALLEL, print, WEATHER } from "./common.mjs";
import { asking, ranTools } from "./vercel.mjs";

const stopWhen = isStepCount(4);
const ran = [];
const whole = await generateText(asking(WEATHER, { tools: { get_weather: ranTools(ran).get_weather }, stopWhen }));

const streamRan = [];
const stream = streamText(asking(PARALLEL, { tools: ranTools(streamRan), stopWhen }));
const pieces = [];
for await (const part of stream.stream) {
  if (part.type === "error") throw part.error;
  if (part.type === "tool-input-delta") pieces.push(part.delta);
}

print({
  text: whole.text,
  ran,
  reasons: whole.steps.map(({ finishReason }) => finishReason),
  streamedText: await stream.text,
  streamRan,
  streamedReasons: (await stream.steps).map(({ finishReason }) => finishReason),
  inputs: pieces.join(""),
});
