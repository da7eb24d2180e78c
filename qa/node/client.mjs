// What the scripts share. Arguments: base address, key, model. Each script prints one line of JSON, its last.
import OpenAI from "openai";

export const [baseURL, apiKey, model] = process.argv.slice(2);
export const client = new OpenAI({ baseURL, apiKey, maxRetries: 0, timeout: 20_000 });

export const says = (text) => [{ role: "user", content: text }];

const city = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const tool = (name, description) => ({ type: "function", function: { name, description, parameters: city } });
export const tools = [tool("get_weather", "The weather of a city"), tool("get_time", "The time of day in a city")];

export const collect = async (stream) => {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
};

// The text of one choice of a stream.
export const joined = (chunks, index = 0) =>
  chunks
    .flatMap((chunk) => chunk.choices)
    .filter((choice) => choice.index === index)
    .map((choice) => choice.delta.content ?? "")
    .join("");

// What an error says to those who catch it; null when nothing was thrown.
export const caught = async (action) => {
  try {
    await action();
  } catch (error) {
    return {
      name: error.constructor.name,
      status: error.status ?? null,
      code: error.code ?? null,
      param: error.param ?? null,
      type: error.type ?? null,
      message: error.message,
      retryAfter: error.headers?.get("retry-after") ?? null,
    };
  }
  return null;
};

export const print = (result) => console.log(JSON.stringify(result));
