// A whole answer, the same streamed, and usage in a stream only when asked for.
import { client, collect, joined, model, print, says } from "./client.mjs";

const ask = { model, messages: says("Say hello") };
const { data: whole, response } = await client.chat.completions.create(ask).withResponse();
const plain = await collect(await client.chat.completions.create({ ...ask, stream: true }));
const counted = await collect(
  await client.chat.completions.create({ ...ask, stream: true, stream_options: { include_usage: true } }),
);

print({
  text: whole.choices[0].message.content,
  reason: whole.choices[0].finish_reason,
  usage: whole.usage,
  requestId: response.headers.get("x-request-id"),
  streamedText: joined(plain),
  streamedUsage: plain.filter((chunk) => chunk.usage).length,
  emptyChunks: plain.filter((chunk) => chunk.choices.length === 0).length,
  lastChoices: counted.at(-1).choices,
  lastUsage: counted.at(-1).usage,
});
