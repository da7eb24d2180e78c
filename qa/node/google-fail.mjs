// One request that an upstream answers with an error. Fourth argument: what to say; fifth: "stream" or nothing.
import { asking, caught, client } from "./google-client.mjs";
import { collect, print, rest } from "./common.mjs";

const [text, how] = rest;
print(
  await caught(async () => {
    if (how === "stream") await collect(await client.models.generateContentStream(asking(text)));
    else await client.models.generateContent(asking(text));
  }),
);
