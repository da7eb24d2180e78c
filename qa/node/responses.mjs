// OpenAI's responses: whole, streamed, a tool and its result, continued by id, in the shape of a schema, refused.
import { zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";

import { caught, client, collect, model, print } from "./client.mjs";
import { CITY, DESCRIPTIONS, PARALLEL, WEATHER } from "./common.mjs";

const tools = Object.entries(DESCRIPTIONS).map(([name, description]) => ({
  type: "function",
  name,
  description,
  parameters: { ...CITY, additionalProperties: false },
  strict: true,
}));
const callsOf = (response) => response.output.filter(({ type }) => type === "function_call");
const named = (calls) => calls.map(({ name, arguments: text }) => [name, JSON.parse(text)]);

const ask = { model, input: "Say hello", instructions: "Be brief." };
const whole = await client.responses.create(ask);
const events = await collect(await client.responses.create({ ...ask, stream: true }));
const deltas = events.filter(({ type }) => type === "response.output_text.delta");

const first = await client.responses.create({ model, input: WEATHER, tools: tools.slice(0, 1) });
const [call] = callsOf(first);
const result = { type: "function_call_output", call_id: call.call_id, output: "18 degrees" };
const second = await client.responses.create({ model, input: [result], previous_response_id: first.id });
const final = await client.responses.stream({ model, input: PARALLEL, tools }).finalResponse();

const Report = z.object({ city: z.string(), degrees: z.number().int() });
const parsed = await client.responses.parse({
  model,
  input: "Report the weather in Oslo.",
  text: { format: zodTextFormat(Report, "report") },
});

print({
  text: whole.output_text,
  status: whole.status,
  kinds: whole.output.flatMap(({ content }) => content.map(({ type }) => type)),
  usage: whole.usage,
  streamed: deltas.map(({ delta }) => delta).join(""),
  deltas: deltas.length,
  numbers: events.map(({ sequence_number: number }) => number),
  first: events[0].type,
  last: events.at(-1).type,
  lastStatus: events.at(-1).response.status,
  called: named([call]),
  answer: second.output_text,
  parallel: named(callsOf(final)),
  callIds: new Set(callsOf(final).map(({ call_id: id }) => id)).size,
  parsed: parsed.output_parsed,
  retrieved: (await client.responses.retrieve(whole.id)).output_text,
  unknownModel: await caught(() => client.responses.create({ ...ask, model: "no-such-model" })),
  wrongField: await caught(() => client.responses.create({ ...ask, temperature: "hot" })),
  unknownId: await caught(() => client.responses.create({ ...ask, previous_response_id: "resp_none" })),
});
