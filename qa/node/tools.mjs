// One tool and its result, two at once, and two at once in a stream that the SDK puts together.
import { client, collect, model, print, says, tools } from "./client.mjs";

const question = says("What is the weather in Paris?");
const first = await client.chat.completions.create({ model, messages: question, tools: tools.slice(0, 1) });
const call = first.choices[0].message.tool_calls[0];
const second = await client.chat.completions.create({
  model,
  messages: [...question, first.choices[0].message, { role: "tool", tool_call_id: call.id, content: "18 degrees" }],
  tools: tools.slice(0, 1),
});

const both = { model, messages: says("What is the weather in Paris and the time in Tokyo?"), tools };
const parallel = await client.chat.completions.create(both);
const chunks = await collect(await client.chat.completions.create({ ...both, stream: true }));
const deltas = chunks.flatMap((chunk) => chunk.choices).flatMap((choice) => choice.delta.tool_calls ?? []);
const collected = await client.chat.completions.stream(both).finalChatCompletion();

const named = (calls) => calls.map(({ function: { name, arguments: text } }) => [name, JSON.parse(text)]);
print({
  reason: first.choices[0].finish_reason,
  called: named([call]),
  answer: second.choices[0].message.content,
  parallel: named(parallel.choices[0].message.tool_calls),
  ids: new Set(parallel.choices[0].message.tool_calls.map(({ id }) => id)).size,
  indexes: [...new Set(deltas.map(({ index }) => index))],
  idsTold: deltas.filter(({ id }) => id).length,
  streamed: named(collected.choices[0].message.tool_calls),
});
