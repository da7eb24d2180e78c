// What the scripts of Google's SDK share; common.mjs says what their arguments are.
import { GoogleGenAI } from "@google/genai";

import { apiKey, baseURL, caughtAs, CITY, DESCRIPTIONS, model } from "./common.mjs";

export const connect = (key, rest = {}) =>
  new GoogleGenAI({ apiKey: key, httpOptions: { baseUrl: baseURL, timeout: 20_000, ...rest } });
export const client = connect(apiKey);

export const says = (text) => ({ role: "user", parts: [{ text }] });
export const asking = (text, config = {}) => ({ model, contents: text, config });

export const declarations = Object.entries(DESCRIPTIONS).map(([name, description]) => ({
  name,
  description,
  parametersJsonSchema: CITY,
}));

export const named = (calls) => (calls ?? []).map(({ name, args }) => [name, args]);

// What an error says to those who catch it; null when nothing was thrown. The SDK puts the body into the message.
export const caught = (action) =>
  caughtAs((error) => {
    const body = /\{.*\}/s.exec(error.message)?.[0];
    return {
      name: error.constructor.name,
      status: error.status ?? null,
      message: error.message,
      error: body ? JSON.parse(body).error : null,
    };
  }, action);
