// Thinking before the answer, streamed, and sent back with the next turn.
import { asking, client, textOf } from "./anthropic-client.mjs";
import { print } from "./common.mjs";

const ask = asking("Say hello", { max_tokens: 2000, thinking: { type: "enabled", budget_tokens: 1024 } });
const thoughts = [];
const stream = client.messages.stream(ask).on("thinking", (delta) => thoughts.push(delta));
const final = await stream.finalMessage();
const answered = { role: "assistant", content: final.content };
const next = await client.messages.create({
  ...ask,
  messages: [...ask.messages, answered, { role: "user", content: "Say hello again" }],
});

print({
  kinds: final.content.map(({ type }) => type),
  thoughts: thoughts.join(""),
  thinking: final.content[0].thinking,
  text: textOf(final),
  next: textOf(next),
});
