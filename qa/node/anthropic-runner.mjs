// The SDK's own loop over tools, whole and streamed: it asks for a conversation that the server keeps, and sends the
// whole one when the server says that it keeps none.
import { betaTool } from "@anthropic-ai/sdk/helpers/beta/json-schema";

import { asking, client, textOf } from "./anthropic-client.mjs";
import { CITY, DESCRIPTIONS, print, WEATHER } from "./common.mjs";

const run = async (stream) => {
  const ran = [];
  const weather = betaTool({
    name: "get_weather",
    description: DESCRIPTIONS.get_weather,
    inputSchema: CITY,
    run: ({ city }) => {
      ran.push(city);
      return "18 degrees";
    },
  });
  const runner = client.beta.messages.toolRunner({ ...asking(WEATHER), tools: [weather], max_iterations: 4, stream });
  return { text: textOf(await runner.runUntilDone()), ran };
};

print([await run(false), await run(true)]);
