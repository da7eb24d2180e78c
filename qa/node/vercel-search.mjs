// A web search that the upstream runs: text, sources and tool calls, whole and streamed.
import { createAnthropic } from "@ai-sdk/anthropic";
import { createGoogle } from "@ai-sdk/google";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, streamText } from "ai";

import { collect, print } from "./common.mjs";
import { asking } from "./vercel.mjs";

const wireFormat = process.argv[5];
const tools = {
  responses: () => ({ web_search: createOpenAI({ apiKey: "k" }).tools.webSearch() }),
  anthropic: () => ({ web_search: createAnthropic({ apiKey: "k" }).tools.webSearch_20250305() }),
  google: () => ({ google_search: createGoogle({ apiKey: "k" }).tools.googleSearch({}) }),
}[wireFormat]();

const ask = asking("How tall is it?", { tools, maxOutputTokens: 500 });
const whole = await generateText(ask);
const stream = streamText(ask);
const parts = await collect(stream.fullStream);
const sourcesOf = (sources) => sources.map((source) => [source.url, source.title]);
const callsOf = (calls) => calls.map((call) => [call.toolName, call.input]);

print({
  text: whole.text,
  sources: sourcesOf(whole.sources),
  calls: callsOf(whole.toolCalls),
  streamed: await stream.text,
  streamedSources: sourcesOf(await stream.sources),
  streamedCalls: callsOf(await stream.toolCalls),
  errors: parts.filter((part) => part.type === "error").map((part) => String(part.error)),
});
