// A stream that is left after its first chunk, and a call after it. Fourth argument: what to say.
import { asking, caught, client } from "./google-client.mjs";
import { collect, print, rest } from "./common.mjs";

const abort = new AbortController();
const stream = await client.models.generateContentStream(asking(rest[0], { abortSignal: abort.signal }));
let seen = 0;
const error = await caught(async () => {
  for await (const chunk of stream) {
    seen += chunk.candidates.length;
    abort.abort();
  }
});
print({ seen, error: error?.name ?? null, models: (await collect(await client.models.list())).length });
