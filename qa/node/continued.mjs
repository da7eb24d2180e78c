// A response that is continued at another model, by OpenAI's SDK. Arguments: base address, key, model, the other model.
import { client, model, print } from "./client.mjs";

const [other] = process.argv.slice(5);
const first = await client.responses.create({ model, input: "Hi" });
const second = await client.responses.create({ model: other, input: "On", previous_response_id: first.id });
print({ first: first.id, answer: second.output_text });
