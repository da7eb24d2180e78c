// A stream that is left after its first text, and a call after it. Fourth argument: what to say.
import { asking, client } from "./anthropic-client.mjs";
import { print, rest } from "./common.mjs";

const stream = await client.messages.create(asking(rest[0], { stream: true }));
let seen = 0;
for await (const event of stream) {
  if (event.type !== "content_block_delta") continue;
  seen += 1;
  break; // leaving the loop aborts the request
}
print({ seen, aborted: stream.controller.signal.aborted, models: (await client.models.list()).data.length });
