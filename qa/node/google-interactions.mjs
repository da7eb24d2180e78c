// The Interactions API: an interaction that is created, continued, streamed, read, cancelled and deleted; then one of nobody.
import { client } from "./google-client.mjs";
import { caughtAs, collect, model, print } from "./common.mjs";

const { interactions } = client;
const input = "Hi";
const made = await interactions.create({ model, input });
const continued = await interactions.create({ model, input, previous_interaction_id: made.id });
const events = await collect(await interactions.create({ model, input, stream: true }));
const read = await interactions.get(made.id);
const cancelled = await interactions.cancel(made.id);
await interactions.delete(made.id);

print({
  made,
  continued: continued.id,
  events: events.map((event) => event.event_type),
  text: events.find((event) => event.event_type === "step.delta").delta.text,
  read: read.id,
  cancelled: cancelled.status,
  unknown: await caughtAs(
    (error) => ({ status: error.status ?? error.statusCode ?? null, message: error.message }),
    () => interactions.get(made.id),
  ),
});
