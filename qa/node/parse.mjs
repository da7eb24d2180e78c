// An answer in the shape of a schema, parsed by the SDK.
import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";

import { client, model, print, says } from "./client.mjs";

const Report = z.object({ city: z.string(), degrees: z.number().int() });
const result = await client.chat.completions.parse({
  model,
  messages: says("Report the weather in Oslo."),
  response_format: zodResponseFormat(Report, "report"),
});
print(result.choices[0].message.parsed);
