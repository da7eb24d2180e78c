// What the scripts of Anthropic's SDK share; common.mjs says what their arguments are.
import Anthropic from "@anthropic-ai/sdk";

import { apiKey, baseURL, caughtAs, CITY, DESCRIPTIONS, model } from "./common.mjs";

export const connect = (key) => new Anthropic({ baseURL, apiKey: key, maxRetries: 0, timeout: 20_000 });
export const client = connect(apiKey);

// A request for one short answer to `text`.
export const asking = (text, rest = {}) => ({
  model,
  max_tokens: 500,
  messages: [{ role: "user", content: text }],
  ...rest,
});

export const tools = Object.entries(DESCRIPTIONS).map(([name, description]) => ({
  name,
  description,
  input_schema: CITY,
}));

export const textOf = (message) =>
  message.content
    .filter(({ type }) => type === "text")
    .map(({ text }) => text)
    .join("");

export const callsOf = (message) => message.content.filter(({ type }) => type === "tool_use");
export const named = (calls) => calls.map(({ name, input }) => [name, input]);

// What an error says to those who catch it; null when nothing was thrown.
export const caught = (action) =>
  caughtAs(
    (error) => ({
      name: error.constructor.name,
      status: error.status ?? null,
      type: error.type ?? null,
      param: error.error?.error?.param ?? null,
      message: error.message,
      retryAfter: error.headers?.get("retry-after") ?? null,
    }),
    action,
  );
