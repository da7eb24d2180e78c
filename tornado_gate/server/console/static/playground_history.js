// Conversations that this browser keeps. They never leave it, and the list deletes them.

import { find, make } from "./playground_dom.js";

const STORE = "gate-conversations";
const MAX_CONVERSATIONS = 30;
const MAX_CHARACTERS = 1_000_000;

function readAll() {
  try {
    const list = JSON.parse(localStorage.getItem(STORE) ?? "[]");
    return Array.isArray(list) ? list : [];
  } catch {
    return [];
  }
}

function writeAll(list) {
  let kept = list.slice(0, MAX_CONVERSATIONS);
  while (JSON.stringify(kept).length > MAX_CHARACTERS) kept = kept.slice(0, -1);
  try {
    localStorage.setItem(STORE, JSON.stringify(kept));
  } catch { /* the browser keeps nothing */ }
}

const findTitle = (messages) => {
  const { content } = messages.find(({ role }) => role === "user") ?? { content: "" };
  const text = typeof content === "string" ? content : content.find(({ type }) => type === "text")?.text ?? translate("Images");
  return text.length > 60 ? `${text.slice(0, 59)}…` : text;
};

/** The list on the page. `open` shows a conversation: {id, model, messages}. */
export class History {
  constructor(open) {
    this.open = open;
    this.list = find("chat-history");
    find("chat-history-clear").addEventListener("click", () => this.#write([]));
    this.#show();
  }

  /** Keep a conversation, as the newest one. */
  save(conversation) {
    this.#write([conversation, ...readAll().filter(({ id }) => id !== conversation.id)]);
  }

  #write(list) {
    writeAll(list);
    this.#show();
  }

  #show() {
    const all = readAll();
    this.list.replaceChildren(...all.map((conversation) => {
      const title = findTitle(conversation.messages);
      const open = make("button", { type: "button", class: "plain small" }, title);
      open.addEventListener("click", () => this.open(conversation));
      const drop = make("button", { type: "button", class: "plain small", "aria-label": translate("Delete {title}", { title }) }, "×");
      drop.addEventListener("click", () => this.#write(readAll().filter(({ id }) => id !== conversation.id)));
      return make("li", { class: "inline" }, open, drop);
    }));
    find("chat-history-box").hidden = !all.length;
  }
}
