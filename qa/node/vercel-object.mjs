// An object in the shape of a schema: by generateObject, as the output of a text, and streamed.
import { generateObject, generateText, Output, streamText } from "ai";
import { z } from "zod";

import { collect, print } from "./common.mjs";
import { asking } from "./vercel.mjs";

const schema = z.object({ city: z.string(), degrees: z.number().int() });
const ask = asking("Report the weather in Oslo.");
const output = Output.object({ schema });
const stream = streamText({ ...ask, output });
const partial = await collect(stream.partialOutputStream);

print({
  object: (await generateObject({ ...ask, schema })).object,
  output: (await generateText({ ...ask, output })).output,
  streamed: await stream.output,
  partial: partial.length,
});
