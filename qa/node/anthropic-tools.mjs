// One tool and its result, two at once, and two at once in a stream.
import { asking, callsOf, client, named, textOf, tools } from "./anthropic-client.mjs";
import { collect, PARALLEL, print, WEATHER } from "./common.mjs";

const question = asking(WEATHER, { tools: tools.slice(0, 1) });
const first = await client.messages.create(question);
const [call] = callsOf(first);
const second = await client.messages.create({
  ...question,
  messages: [
    ...question.messages,
    { role: "assistant", content: first.content },
    { role: "user", content: [{ type: "tool_result", tool_use_id: call.id, content: "18 degrees" }] },
  ],
});

const both = asking(PARALLEL, { tools });
const parallel = callsOf(await client.messages.create(both));
const pieces = [];
const stream = client.messages.stream(both).on("inputJson", (piece) => pieces.push(piece));
const final = await stream.finalMessage();
const events = await collect(await client.messages.create({ ...both, stream: true }));
const started = events.filter(({ content_block: block }) => block?.type === "tool_use");

print({
  reason: first.stop_reason,
  called: named([call]),
  answer: textOf(second),
  answerReason: second.stop_reason,
  parallel: named(parallel),
  ids: new Set(parallel.map(({ id }) => id)).size,
  streamed: named(callsOf(final)),
  streamedReason: final.stop_reason,
  pieces: pieces.length,
  emptyStarts: started.map(({ content_block: block }) => block.input),
  indexes: started.map(({ index }) => index),
});
