// One request that an upstream answers with an error. Fourth argument: what to say; fifth: "stream" or nothing.
import { asking, caught, client } from "./anthropic-client.mjs";
import { print, rest } from "./common.mjs";

const [text, how] = rest;
const { messages } = client;
print(
  await caught(() =>
    how === "stream" ? messages.stream(asking(text)).finalMessage() : messages.create(asking(text)),
  ),
);
