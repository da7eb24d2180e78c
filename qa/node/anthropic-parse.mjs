// An answer in the shape of a schema, parsed by the SDK.
import { zodOutputFormat } from "@anthropic-ai/sdk/helpers/zod";
import { z } from "zod";

import { asking, client } from "./anthropic-client.mjs";
import { print } from "./common.mjs";

const Report = z.object({ city: z.string(), degrees: z.number().int() });
const ask = asking("Report the weather in Oslo.", { output_config: { format: zodOutputFormat(Report) } });
print((await client.messages.parse(ask)).parsed_output);
