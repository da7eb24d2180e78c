// What goes wrong on the caller's side, and whether the models can be listed.
import OpenAI from "openai";

import { baseURL, caught, client, collect, model, print, says } from "./client.mjs";

const stranger = new OpenAI({ baseURL, apiKey: "wrong-key", maxRetries: 0 });
const ask = (rest) => caught(() => client.chat.completions.create({ model, messages: says("hi"), ...rest }));
const listed = await collect(client.models.list());

print({
  unknownModel: await ask({ model: "no-such-model" }),
  wrongKey: await caught(() => stranger.chat.completions.create({ model, messages: says("hi") })),
  wrongField: await ask({ temperature: "hot" }),
  wrongRole: await ask({ messages: [{ role: 5, content: "hi" }] }),
  unknownRetrieved: await caught(() => client.models.retrieve("no-such-model")),
  retrieved: (await client.models.retrieve(model)).id,
  models: listed.map(({ id }) => id),
});
