// OpenAI's responses over WebSocket: a conversation that is not stored, two lanes at once, a prepared response, an error.
import { ResponsesWS } from "openai/resources/responses/ws";

import { client, model, print } from "./client.mjs";
import { CITY, DESCRIPTIONS, WEATHER } from "./common.mjs";

const tools = Object.entries(DESCRIPTIONS).map(([name, description]) => ({
  type: "function",
  name,
  description,
  parameters: CITY,
  strict: false,
}));
const ENDS = ["response.completed", "response.incomplete", "response.failed", "error"];

const textOf = ({ output }) => output.flatMap(({ content }) => content ?? []).map(({ text }) => text).join("");

const ws = new ResponsesWS(client);
const events = ws.stream();
const next = async () => {
  for (;;) {
    const { value: event, done } = await events.next();
    if (done) throw new Error("closed");
    if (event.type === "error") return event.error.error; // the message that the SDK's error was made of
    if (event.type === "message") return event.message;
  }
};
const create = async (fields) => {
  ws.send({ type: "response.create", model, store: false, ...fields });
  for (;;) {
    const message = await next();
    if (ENDS.includes(message.type)) return message;
  }
};

const first = (await create({ input: WEATHER, tools, tool_choice: "required" })).response;
const call = first.output.find(({ type }) => type === "function_call");
const output = [{ type: "function_call_output", call_id: call.call_id, output: "18 degrees" }];
const second = (await create({ input: output, tools, previous_response_id: first.id })).response;

const lanes = {};
for (const stream_id of ["planner", "research"])
  ws.send({ type: "response.create", model, store: false, stream_id, input: "Say hello" });
while (Object.keys(lanes).length < 2) {
  const message = await next();
  if (message.type === "response.completed") lanes[message.stream_id] = textOf(message.response);
}

const prepared = (await create({ input: "Say hello", generate: false })).response;
const third = (await create({ input: [], previous_response_id: prepared.id })).response;
const unknown = await create({ model: "no-such-model", input: "Hi" });
const closed = new Promise((resolve) => ws.on("close", (code) => resolve(code)));
ws.close();
print({
  called: [call.name, JSON.parse(call.arguments)],
  answer: textOf(second),
  previous: second.previous_response_id === first.id,
  lanes,
  prepared: prepared.output,
  third: textOf(third),
  unknown,
  closed: await closed,
});
process.exit(0);
