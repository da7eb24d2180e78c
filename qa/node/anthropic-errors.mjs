// What goes wrong on the caller's side, and whether the models can be listed.
import { asking, caught, client, connect } from "./anthropic-client.mjs";
import { collect, model, print } from "./common.mjs";

const ask = (rest) => caught(() => client.messages.create(asking("hi", rest)));
const models = await collect(client.models.list());

print({
  unknownModel: await ask({ model: "no-such-model" }),
  wrongKey: await caught(() => connect("wrong-key").messages.create(asking("hi"))),
  wrongField: await ask({ max_tokens: "many" }),
  wrongRole: await ask({ messages: [{ role: 5, content: "hi" }] }),
  unknownRetrieved: await caught(() => client.models.retrieve("no-such-model")),
  retrieved: await client.models.retrieve(model),
  models,
});
