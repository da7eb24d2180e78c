// A conversation, a response in it, a compaction and a count of tokens, by OpenAI's SDK.
import { caught, client, model, print } from "./client.mjs";

const { id } = await client.conversations.create({ items: [{ role: "user", content: "I am Bob." }] });
const response = await client.responses.create({ model, input: "Hi", conversation: id });
const texts = [];
for await (const item of client.conversations.items.list(id, { order: "asc" })) texts.push(item.content[0].text);

const compacted = await client.responses.compact({ model, input: "I am Bob." });
const input = [...compacted.output, { role: "user", content: "Go on" }];
const next = await client.responses.create({ model, input, store: false });
const count = await client.responses.inputTokens.count({ model, input: "Hi" });

const deleted = await client.conversations.delete(id);
print({
  id,
  texts,
  conversation: response.conversation.id,
  kinds: compacted.output.map(({ type }) => type),
  answer: next.output_text,
  count,
  deleted,
  gone: await caught(() => client.conversations.retrieve(id)),
});
