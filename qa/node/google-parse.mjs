// An answer in the shape of a schema, in both spellings of it: JSON Schema, and the vendor's own.
import { Type } from "@google/genai";
import { z } from "zod";

import { asking, client } from "./google-client.mjs";
import { print } from "./common.mjs";

const Report = z.object({ city: z.string(), degrees: z.number().int() });
const schema = {
  type: Type.OBJECT,
  properties: { city: { type: Type.STRING }, degrees: { type: Type.INTEGER } },
  required: ["city", "degrees"],
};
const report = async (rest) => {
  const config = { responseMimeType: "application/json", ...rest };
  const answer = await client.models.generateContent(asking("Report the weather in Oslo.", config));
  return Report.parse(JSON.parse(answer.text));
};
print([await report({ responseJsonSchema: z.toJSONSchema(Report) }), await report({ responseSchema: schema })]);
