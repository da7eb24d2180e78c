// A function that the SDK calls by itself, until the model answers.
import { asking, client, declarations } from "./google-client.mjs";
import { print, WEATHER } from "./common.mjs";

const ran = [];
const weather = {
  tool: async () => ({ functionDeclarations: declarations.slice(0, 1) }),
  callTool: async (calls) =>
    calls.map(({ id, name, args }) => {
      ran.push(args);
      return { functionResponse: { id, name, response: { output: "18 degrees" } } };
    }),
};
const answer = await client.models.generateContent(asking(WEATHER, { tools: [weather] }));
print({ text: answer.text, ran, turns: answer.automaticFunctionCallingHistory.length });
