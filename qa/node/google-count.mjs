// How many tokens a request has.
import { caught, client } from "./google-client.mjs";
import { model, print } from "./common.mjs";

let counted = null;
const error = await caught(async () => {
  counted = (await client.models.countTokens({ model, contents: "How many tokens are these?" })).totalTokens;
});
print({ counted, error });
