// What the scripts of Vercel's AI SDK share. Fourth argument: through which wire format ("chat", "responses",
// "anthropic", "google"). Base address without a path.
import { createAnthropic } from "@ai-sdk/anthropic";
import { createGoogle } from "@ai-sdk/google";
import { createOpenAI } from "@ai-sdk/openai";
import { tool } from "ai";
import { z } from "zod";

import { apiKey, baseURL, caughtAs, DESCRIPTIONS, model as name, rest } from "./common.mjs";

const FORMATS = {
  chat: (key) => createOpenAI({ baseURL: `${baseURL}/v1`, apiKey: key }).chat,
  responses: (key) => createOpenAI({ baseURL: `${baseURL}/v1`, apiKey: key }).responses,
  anthropic: (key) => createAnthropic({ baseURL: `${baseURL}/v1`, apiKey: key }),
  google: (key) => createGoogle({ baseURL: `${baseURL}/v1beta`, apiKey: key }),
};
export const modelOf = (of = name, key = apiKey) => FORMATS[rest[0]](key)(of);
export const asking = (prompt, more = {}) => ({ model: modelOf(), prompt, maxRetries: 0, ...more });

// The tools, run by the SDK; `ran` gets the name and the input of each call.
export const ranTools = (ran) =>
  Object.fromEntries(
    Object.entries(DESCRIPTIONS).map(([name, description]) => [
      name,
      tool({
        description,
        inputSchema: z.object({ city: z.string() }),
        execute: async (input) => {
          ran.push([name, input]);
          return name === "get_weather" ? "18 degrees" : "noon";
        },
      }),
    ]),
  );

export const caught = (action) =>
  caughtAs((error) => ({ name: error.name, status: error.statusCode ?? null, message: error.message }), action);
