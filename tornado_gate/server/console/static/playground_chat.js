// Chat: streamed answers, tools whose results a person types, pictures.

import { RequestFailed, readEvents, request } from "./playground_api.js";
import { find, make, makeError, omitEmpty, readDataUrl, readJson, readNumber, readText } from "./playground_dom.js";
import { History } from "./playground_history.js";
import { renderMarkdown } from "./playground_markdown.js";
import { BriefReport, Report } from "./playground_report.js";

const PATH = "/v1/chat/completions";
const EXAMPLE_TOOLS = [
  {
    type: "function",
    function: {
      name: "get_weather",
      description: "The weather in a city.",
      parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
    },
  },
];
const SPOKEN_MILLISECONDS = 2000;
const FINISH_WORDS = {
  length: translate("The answer was cut off: the maximum of tokens is reached."),
  content_filter: translate("The provider ended the answer: its content filter."),
};

let messages = [];
let running = null;
let report;
let history;
let conversation = "";

export function startChat(panel) {
  report = new Report(panel, "chat");
  find("chat-tools-example").addEventListener("click", () => {
    find("chat-tools").value = JSON.stringify(EXAMPLE_TOOLS, null, 2);
  });
  find("chat-form").addEventListener("submit", (event) => {
    event.preventDefault();
    sendInput();
  });
  find("chat-input").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    find("chat-form").requestSubmit();
  });
  const others = [...find("chat-model").options].map(({ value, text }) => new Option(text, value));
  find("chat-other").replaceChildren(new Option(translate("none"), ""), ...others);
  history = new History(showConversation);
  find("chat-stop").addEventListener("click", () => running?.abort());
  find("chat-new").addEventListener("click", () => {
    running?.abort();
    messages = [];
    conversation = "";
    find("chat-log").replaceChildren(make("p", { class: "empty" }, translate("A new conversation. Write a message and press Send.")));
    find("chat-input").focus();
  });
}

async function sendInput() {
  if (running) return;
  const text = find("chat-input").value;
  const files = [...find("chat-images").files];
  const waiting = listOpenCalls();
  if (!text.trim() && !files.length && !waiting.length) {
    find("chat-input").focus();
    return;
  }
  const before = messages;
  for (const old of find("chat-log").querySelectorAll(":scope > .notice.error")) old.remove();
  try {
    const added = readResults(waiting);
    if (text.trim() || files.length) added.push(await makeUserMessage(text, files));
    const settings = readSettings();
    messages = [...messages, ...added];
    for (const message of added) if (message.role === "user") showUserMessage(message);
    for (const call of waiting) closeCall(call);
    find("chat-form").reset();
    await answer(settings);
  } catch (error) {
    messages = before;
    for (const call of waiting) openCall(call);
    if (!find("chat-input").value) find("chat-input").value = text;
    append(makeError(error));
  }
}

function readSettings() {
  return omitEmpty({
    temperature: readNumber("chat-temperature"),
    max_tokens: readNumber("chat-max-tokens"),
    tools: readJson("chat-tools", "list"),
    ...readJson("chat-more", "object"),
  });
}

/** Show a conversation that the browser has kept. */
function showConversation(kept) {
  if (running) return;
  ({ id: conversation, messages } = kept);
  find("chat-log").replaceChildren();
  if ([...find("chat-model").options].some(({ value }) => value === kept.model)) find("chat-model").value = kept.model;
  for (const message of messages) {
    if (message.role === "user") showUserMessage(message);
    else if (message.role === "assistant") new AnswerView(kept.model, report).show(message);
  }
}

function makeBody(settings, model = find("chat-model").value) {
  const system = readText("chat-system");
  const body = {
    model,
    messages: [...(system ? [{ role: "system", content: system }] : []), ...messages],
    stream: true,
    stream_options: { include_usage: true },
    ...settings,
  };
  if (!body.stream) delete body.stream_options;
  return body;
}

async function makeUserMessage(text, files) {
  if (!files.length) return { role: "user", content: text };
  const pictures = await Promise.all(files.map((file) => readDataUrl(file)));
  const parts = pictures.map((url) => ({ type: "image_url", image_url: { url } }));
  return { role: "user", content: text.trim() ? [{ type: "text", text }, ...parts] : parts };
}

/** Get the answer to `messages`, and beside it the one of a second model, which the conversation does not continue. */
async function answer(settings) {
  running = new AbortController();
  setBusy(true);
  const other = find("chat-other").value;
  const box = other ? make("div", { class: "compared" }) : null;
  if (box) append(box);
  const body = makeBody(settings);
  const view = new AnswerView(body.model, report, box);
  try {
    const beside = other && askBeside(makeBody(settings, other), box);
    await ask(body, view, report);
    if (view.hasContent) messages = [...messages, view.makeMessage()];
    conversation ||= crypto.randomUUID?.() ?? String(Date.now());
    history.save({ id: conversation, model: body.model, messages });
    await beside;
  } finally {
    running = null;
    setBusy(false);
  }
}

async function askBeside(body, box) {
  const brief = new BriefReport();
  const view = new AnswerView(body.model, brief, box);
  view.box.append(brief.box);
  try {
    await ask(body, view, brief);
  } catch (error) {
    view.box.append(makeError(error));
  }
}

/** Show the answer to a request while it comes. Throws what a person must read. */
async function ask(body, view, report) {
  report.start("POST", PATH, body);
  try {
    const response = await request(PATH, { method: "POST", body, signal: running.signal });
    report.setAnswer(response);
    if (response.headers.get("content-type")?.includes("text/event-stream")) {
      for await (const data of readEvents(response)) takeEvent(view, data);
      report.findCost(response.headers.get("x-request-id"));
    } else {
      const whole = await response.text();
      report.addEvent(whole);
      takeWhole(view, JSON.parse(whole));
    }
  } catch (error) {
    if (error.response) report.setAnswer(error.response);
    if (error.body) report.addEvent(error.body);
    if (error.name !== "AbortError") throw error;
    view.addNote(translate("Stopped."));
  } finally {
    report.finish();
    view.end();
  }
}

function takeEvent(view, data) {
  view.report.addEvent(data);
  if (data === "[DONE]") return;
  const event = JSON.parse(data);
  if (event.error) {
    const body = JSON.stringify(event, null, 2);
    throw new RequestFailed(`${translate("The answer broke off.")} ${event.error.message}`, { body });
  }
  view.report.setUsage(event.usage);
  for (const choice of event.choices ?? []) {
    view.add(choice.delta ?? {}, choice.index);
    if (FINISH_WORDS[choice.finish_reason]) view.addNote(FINISH_WORDS[choice.finish_reason]);
  }
}

function takeWhole(view, whole) {
  view.report.setUsage(whole.usage);
  for (const choice of whole.choices ?? []) {
    const { tool_calls: calls, ...rest } = choice.message;
    view.add({ ...rest, tool_calls: calls?.map((call, index) => ({ ...call, index })) }, choice.index);
  }
}

function setBusy(isBusy) {
  find("chat-stop").disabled = !isBusy;
  find("chat-form").querySelector("[type=submit]").disabled = isBusy;
  find("chat-log").setAttribute("aria-busy", String(isBusy));
}

function append(element) {
  const log = find("chat-log");
  log.querySelector(".empty")?.remove();
  log.append(element);
  log.scrollTop = log.scrollHeight;
}

function makeTurn(name, ...children) {
  const label = name ? translate("Answer") : translate("You");
  return make("article", { class: `turn ${name ? "assistant" : "user"}`, "aria-label": label },
    make("h2", {}, name || label), ...children);
}

function showUserMessage({ content }) {
  const parts = typeof content === "string" ? [{ type: "text", text: content }] : content;
  const shown = parts.map((part) => part.type === "text"
    ? make("p", { class: "text" }, part.text)
    : make("img", { src: part.image_url.url, alt: translate("Attached image") }));
  append(makeTurn("", ...shown));
}

/** An answer while it comes: reasoning, text and tool calls, each as plain text. Only the first choice is shown. */
class AnswerView {
  constructor(model, report, place = null) {
    this.report = report;
    this.content = "";
    this.reasoning = "";
    this.calls = [];
    this.unspoken = "";
    this.lastSpoken = performance.now();
    this.reasoningText = make("p", { class: "text" });
    const summary = make("summary", {}, translate("Reasoning"));
    this.reasoningBox = make("details", { class: "reasoning", hidden: true }, summary, this.reasoningText);
    this.text = make("p", { class: "text answer" });
    this.working = make("p", { class: "quiet working" },
      make("progress", { "aria-label": translate("Work") }), ` ${translate("The model works …")}`);
    this.box = makeTurn(model, this.reasoningBox, this.working, this.text);
    if (place) place.append(this.box);
    else append(this.box);
    find("chat-spoken").replaceChildren();
  }

  get hasContent() {
    return Boolean(this.content || this.calls.length);
  }

  add(delta, index = 0) {
    if (index !== 0) return;
    const log = find("chat-log");
    const isAtEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
    const reasoning = delta.reasoning_content ?? delta.reasoning;
    if (typeof reasoning === "string" && reasoning) {
      this.#noteFirst();
      this.reasoning += reasoning;
      this.reasoningBox.hidden = false;
      this.reasoningText.append(reasoning);
    }
    for (const text of [delta.content, delta.refusal]) {
      if (typeof text === "string" && text) this.#addText(text);
    }
    for (const call of delta.tool_calls ?? []) this.#addCall(call);
    if (isAtEnd) log.scrollTop = log.scrollHeight;
  }

  #noteFirst() {
    this.working.remove();
    this.report.noteFirst();
  }

  #addText(text) {
    this.#noteFirst();
    this.content += text;
    this.text.append(text);
    this.unspoken += text;
    const isTime = performance.now() - this.lastSpoken > SPOKEN_MILLISECONDS;
    if (isTime && /[.!?\n]\s*$/.test(this.unspoken)) this.#speak();
  }

  /** Let screen readers read what is new: whole sentences, never single tokens. */
  #speak() {
    if (this.unspoken.trim()) find("chat-spoken").append(make("p", {}, this.unspoken));
    this.unspoken = "";
    this.lastSpoken = performance.now();
  }

  #addCall(piece) {
    this.#noteFirst();
    const call = (this.calls[piece.index ?? this.calls.length] ??= { id: "", type: "function", function: { name: "", arguments: "" } });
    if (piece.id) call.id = piece.id;
    call.function.name += piece.function?.name ?? "";
    call.function.arguments += piece.function?.arguments ?? "";
  }

  addNote(text) {
    this.box.append(make("p", { class: "quiet" }, text));
    this.unspoken += ` ${text}`;
  }

  end() {
    this.working.remove();
    if (this.content) {
      const rendered = make("div", { class: "answer" }, ...renderMarkdown(this.content));
      this.text.replaceWith(rendered);
      this.text = rendered;
    }
    this.calls = this.calls.filter(Boolean);
    for (const call of this.calls) this.box.append(makeCallForm(call));
    const names = this.calls.map((call) => call.function.name).join(", ");
    if (names) this.unspoken += ` ${translate("The model calls {names}. Type the result.", { names })}`;
    this.#speak();
    if (!this.content) this.text.remove();
    if (!this.hasContent && !this.reasoning && this.box.childElementCount <= 2) this.box.remove();
    this.box.querySelector("textarea")?.focus();
  }

  /** Show a whole message of an earlier time. */
  show({ content, tool_calls: calls }) {
    this.working.remove();
    const names = (calls ?? []).map((call) => translate("The model called {name}.", { name: call.function.name })).join(" ");
    this.text.replaceWith(make("div", { class: "answer" }, ...renderMarkdown([content, names].filter(Boolean).join("\n\n"))));
  }

  makeMessage() {
    const message = { role: "assistant", content: this.content || null };
    if (this.calls.length) message.tool_calls = this.calls;
    return message;
  }
}

function makeCallForm(call) {
  const { name } = call.function;
  const id = `result-${call.id}`;
  const input = make("textarea", { id, rows: 2, class: "code" });
  const button = make("button", { type: "button" }, translate("Send result"));
  button.addEventListener("click", sendInput);
  const form = make("div", { class: "call stack" },
    make("p", {}, translate("The model calls"), " ", make("code", {}, name)),
    make("pre", { tabIndex: 0, role: "region", "aria-label": translate("Arguments of {name}", { name }) },
      formatArguments(call.function.arguments)),
    make("div", {}, make("label", { htmlFor: id }, translate("Result of {name}", { name })), input), make("div", {}, button));
  form.call = { id: call.id, input, button };
  return form;
}

function formatArguments(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** The calls whose results the model waits for. */
function listOpenCalls() {
  return [...find("chat-log").querySelectorAll(".call")].map((form) => form.call).filter((call) => !call.input.readOnly);
}

function readResults(calls) {
  return calls.map(({ id, input }) => {
    if (!input.value.trim()) {
      input.focus();
      throw new Error(translate("Type what “{label}” is; the model waits for it.", { label: input.labels[0].textContent }));
    }
    return { role: "tool", tool_call_id: id, content: input.value };
  });
}

function closeCall({ input, button }) {
  input.readOnly = true;
  button.hidden = true;
}

function openCall({ input, button }) {
  input.readOnly = false;
  button.hidden = false;
}
