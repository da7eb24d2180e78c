// What goes wrong on the caller's side, and whether the models can be listed.
import { asking, caught, client, connect } from "./google-client.mjs";
import { collect, model, print } from "./common.mjs";

const ask = (config, rest) => caught(() => client.models.generateContent({ ...asking("hi", config), ...rest }));
const models = await collect(await client.models.list());

print({
  unknownModel: await ask({}, { model: "no-such-model" }),
  unknownStreamed: await caught(() => client.models.generateContentStream({ ...asking("hi"), model: "no-such-model" })),
  wrongKey: await caught(() => connect("wrong-key").models.generateContent(asking("hi"))),
  wrongField: await ask({ temperature: "hot" }),
  wrongRole: await ask({}, { contents: [{ role: 5, parts: [{ text: "hi" }] }] }),
  unknownRetrieved: await caught(() => client.models.get({ model: "no-such-model" })),
  retrieved: await client.models.get({ model }),
  models,
});
