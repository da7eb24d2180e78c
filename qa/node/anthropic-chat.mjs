// A whole answer, the same by the stream helper, and the same as raw events.
import { asking, client, textOf } from "./anthropic-client.mjs";
import { collect, print } from "./common.mjs";

const ask = asking("Say hello", { system: "Be brief." });
const { data: whole, response } = await client.messages.create(ask).withResponse();

const texts = [];
const stream = client.messages.stream(ask).on("text", (delta) => texts.push(delta));
const final = await stream.finalMessage();
const events = await collect(await client.messages.create({ ...ask, stream: true }));
const only = (type) => events.filter((event) => event.type === type);

print({
  text: textOf(whole),
  role: [whole.type, whole.role],
  model: whole.model,
  reason: whole.stop_reason,
  usage: whole.usage,
  requestId: response.headers.get("x-request-id"),
  provider: response.headers.get("x-gate-provider"),
  deltas: texts.length,
  streamedText: texts.join(""),
  finalText: textOf(final),
  finalReason: final.stop_reason,
  finalUsage: final.usage,
  first: events[0].type,
  last: events.at(-1).type,
  started: only("content_block_start").length,
  stopped: only("content_block_stop").length,
  deltaUsage: only("message_delta").at(-1).usage,
});
