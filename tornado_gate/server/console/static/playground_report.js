// What a request and its answer were: figures, the exact JSON and events, and the request as a program.

import { LANGUAGES } from "./playground_code.js";
import { find, formatTime, make } from "./playground_dom.js";
import { formatJson } from "./playground_api.js";

const STATUS = translate("Status");
const FIRST_TOKEN = translate("First token");
const TOTAL_TIME = translate("Total time");
const INPUT_TOKENS = translate("Input tokens");
const OUTPUT_TOKENS = translate("Output tokens");
const COST = translate("Cost (USD)");
const HEADERS = {
  "x-gate-cost": COST,
  "x-gate-provider": translate("Provider"),
  "x-gate-model": translate("Model at the provider"),
  "x-gate-attempts": translate("Attempts"),
  "x-gate-loss": translate("Dropped fields"),
  "x-gate-estimate": translate("Estimated"),
  "x-request-id": translate("Request id"),
};

const COST_TRIES = 5;
const COST_WAIT = 700;
const BRIEF = [STATUS, FIRST_TOKEN, TOTAL_TIME, INPUT_TOKENS, OUTPUT_TOKENS, COST];

let number = 0;

/** The report of a panel. One request at a time: `start`, then `setAnswer`, `addEvent`, `setUsage` and `finish`. */
export class Report {
  constructor(panel, kind) {
    this.kind = kind;
    this.facts = make("dl", { class: "facts" });
    this.requestText = this.#makeText(translate("Request"));
    this.answerText = this.#makeText(translate("Answer"));
    this.code = this.#makeText(translate("Program"));
    this.language = make("select", { id: `report-language-${number}` }, ...Object.keys(LANGUAGES).map((name) => make("option", {}, name)));
    this.language.addEventListener("change", () => this.#writeCode());
    this.box = make("div", { class: "card", hidden: true }, this.facts, this.#makeRaw(), this.#makeProgram());
    panel.querySelector(".report").append(this.box);
  }

  #makeText(label) {
    number += 1;
    return make("pre", { tabIndex: 0, id: `report-${number}`, role: "region", "aria-label": label });
  }

  #makeRaw() {
    this.raw = make("details", {}, make("summary", {}, translate("Request and answer")),
      make("h2", {}, translate("Request")), this.requestText, make("h2", {}, translate("Answer")), this.answerText);
    this.raw.addEventListener("toggle", () => this.#writeAnswer());
    return this.raw;
  }

  #makeProgram() {
    const copy = make("button", { type: "button", class: "plain" }, translate("Copy"));
    copy.addEventListener("click", async () => {
      await navigator.clipboard.writeText(this.code.textContent);
      copy.textContent = translate("Copied");
      setTimeout(() => { copy.textContent = translate("Copy"); }, 2000);
    });
    const label = make("label", { htmlFor: this.language.id }, translate("Language"));
    return make("details", {}, make("summary", {}, translate("As a program")),
      make("div", { class: "row" }, make("div", {}, label, this.language), copy), this.code);
  }

  /** A request is sent. */
  start(method, path, body) {
    this.request = { base: find("playground").dataset.publicUrl, method, path, body, kind: this.kind };
    this.started = performance.now();
    this.first = null;
    this.events = [];
    this.values = new Map();
    this.box.hidden = false;
    this.requestText.textContent = `${method} ${path}\n\n${JSON.stringify(body, null, 2)}`;
    this.answerText.textContent = "";
    this.facts.replaceChildren();
    this.#writeCode();
  }

  /** The status and the headers of the answer are here. */
  setAnswer(response) {
    this.set(STATUS, String(response.status));
    for (const [name, label] of Object.entries(HEADERS)) {
      const value = response.headers.get(name);
      if (value) this.set(label, value);
    }
    this.head = `${response.status} ${response.statusText}\n`;
    for (const [name, value] of response.headers) this.head += `${name}: ${value}\n`;
  }

  /** The first part of the answer that a person can use is here. */
  noteFirst() {
    if (this.first === null) {
      this.first = performance.now() - this.started;
      this.set(FIRST_TOKEN, formatTime(this.first));
    }
  }

  addEvent(text) {
    this.events.push(text);
  }

  /** Token counts as the API reports them; a cost too, where the answer has one. */
  setUsage(usage) {
    if (!usage) return;
    const input = usage.prompt_tokens ?? usage.input_tokens;
    const output = usage.completion_tokens ?? usage.output_tokens;
    if (input !== undefined) this.set(INPUT_TOKENS, String(input));
    if (output !== undefined) this.set(OUTPUT_TOKENS, String(output));
    const reasoning = usage.completion_tokens_details?.reasoning_tokens;
    if (reasoning) this.set(translate("Reasoning tokens"), String(reasoning));
    const cached = usage.prompt_tokens_details?.cached_tokens;
    if (cached) this.set(translate("Cached tokens"), String(cached));
    if (usage.cost !== undefined && usage.cost !== null) this.set(COST, String(usage.cost));
  }

  /** Show the cost of a stream, which its headers cannot have: the ledger knows it a moment after the end. */
  async findCost(id) {
    const started = this.started;
    for (let tries = 0; id && tries < COST_TRIES && !this.values.has(COST); tries += 1) {
      await new Promise((resolve) => setTimeout(resolve, COST_WAIT));
      const headers = { "X-Xsrftoken": document.body.dataset.xsrf };
      const sent = { method: "POST", headers, body: new URLSearchParams({ id }) };
      const response = await fetch("/console/playground/cost", sent).catch(() => null);
      const { cost } = response?.ok ? await response.json() : {};
      if (this.started !== started) return;
      if (cost) this.set(COST, cost);
    }
  }

  set(label, value) {
    this.values.set(label, value);
    this.facts.replaceChildren(...[...this.values].flatMap(([name, text]) => [make("dt", {}, name), make("dd", {}, text)]));
  }

  finish() {
    this.set(TOTAL_TIME, formatTime(performance.now() - this.started));
    this.#writeAnswer();
  }

  #writeAnswer() {
    if (this.raw.open && this.events) {
      this.answerText.textContent = `${this.head ?? ""}\n${this.events.map(formatJson).join("\n\n")}`;
    }
  }

  #writeCode() {
    if (this.request) this.code.textContent = LANGUAGES[this.language.value](this.request);
  }
}

/** The figures of an answer beside another one, without texts. */
export class BriefReport extends Report {
  constructor() {
    const panel = make("div", {}, make("div", { class: "report" }));
    super(panel, "chat");
    this.box = this.facts;
    this.facts.className = "facts small";
  }

  set(label, value) {
    if (BRIEF.includes(label)) super.set(label, value);
  }
}
