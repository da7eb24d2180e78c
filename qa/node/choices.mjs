// Two choices, whole and streamed.
import { client, collect, joined, model, print, says } from "./client.mjs";

const ask = { model, messages: says("Say hello"), n: 2 };
const whole = await client.chat.completions.create(ask);
const chunks = await collect(await client.chat.completions.create({ ...ask, stream: true }));
print({
  whole: whole.choices.map((choice) => choice.message.content),
  streamed: [joined(chunks, 0), joined(chunks, 1)],
});
