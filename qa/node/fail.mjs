// One request that an upstream answers with an error. Fourth argument: what to say; fifth: "stream" or nothing.
import { caught, client, collect, model, print, says } from "./client.mjs";

const [text, how] = process.argv.slice(5);
const ask = { model, messages: says(text), stream: how === "stream" };
print(
  await caught(async () => {
    const answer = await client.chat.completions.create(ask);
    if (ask.stream) await collect(answer);
  }),
);
