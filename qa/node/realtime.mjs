// A conversation by voice. Further arguments: which of the SDK's clients, then JSON: `steps`, each an event to send or the
// type of one to wait for; `secret`, what to make a client secret of, with which the session is opened then.
//
// These clients speak TLS only. The address names site.test, which is this machine.
import dns from "node:dns";

import OpenAI from "openai";
import { OpenAIRealtimeWebSocket as BetaNative } from "openai/beta/realtime/websocket";
import { OpenAIRealtimeWS as BetaWs } from "openai/beta/realtime/ws";
import { OpenAIRealtimeWebSocket as Native } from "openai/realtime/websocket";
import { OpenAIRealtimeWS as Ws } from "openai/realtime/ws";

import { caught, client, model, print } from "./client.mjs";
import { baseURL, rest } from "./common.mjs";

const lookup = dns.lookup;
dns.lookup = (name, ...others) => lookup(name === "site.test" ? "127.0.0.1" : name, ...others);

const CLIENTS = { ws: Ws, websocket: Native, "beta-ws": BetaWs, "beta-websocket": BetaNative };
const [kind, given] = rest;
const { steps = [], secret } = JSON.parse(given);

const converse = async (key) => {
  const session = new CLIENTS[kind]({ model }, new OpenAI({ baseURL, apiKey: key }));
  const events = [];
  const errors = [];
  let closed = null;
  let next = 0;
  let news = () => {};
  const tell = (what) => (value) => {
    what(value);
    news();
  };
  session.on("event", tell((event) => events.push(event)));
  session.on("error", tell(({ name, message, error }) => errors.push({ name, message, error: error ?? null })));
  session.socket.addEventListener("close", tell(({ code, reason }) => (closed = { code, reason })));

  // True once an event of the type has come after those that were waited for before; false when none can come.
  const until = async (type) => {
    for (;;) {
      while (next < events.length) if (events[next++].type === type) return true;
      if (closed) return false;
      await new Promise((resolve) => (news = resolve));
    }
  };
  for (const step of steps) {
    if (typeof step !== "string") session.send(step);
    else if (!(await until(step))) break;
  }
  const protocol = session.socket.protocol;
  session.close();
  while (!closed) await new Promise((resolve) => (news = resolve));
  return { events, errors, closed, protocol };
};

let made = null;
let key = client.apiKey;
const failure = await caught(async () => {
  if (!secret) return;
  made = await client.realtime.clientSecrets.create(secret);
  key = made.value;
});
print({ failure, made, ...(failure ? {} : await converse(key)) });
process.exit(0);
