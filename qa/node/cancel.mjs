// A stream that is left after its first chunk, and a call after it. Fourth argument: what to say.
import { client, model, print, says } from "./client.mjs";

const stream = await client.chat.completions.create({ model, messages: says(process.argv[5]), stream: true });
let seen = 0;
for await (const chunk of stream) {
  seen += chunk.choices.length;
  break; // leaving the loop aborts the request
}
print({ seen, aborted: stream.controller.signal.aborted, models: (await client.models.list()).data.length });
