// How many tokens a request has, without and with a tool.
import { asking, caught, client, tools } from "./anthropic-client.mjs";
import { print } from "./common.mjs";

const { max_tokens: _, ...ask } = asking("How many tokens are these?");
const counted = [];
const count = async (request) => counted.push((await client.messages.countTokens(request)).input_tokens);
const error = await caught(async () => {
  await count(ask);
  await count({ ...ask, tools });
});
print({ counted, error });
