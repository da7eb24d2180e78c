// The playground: tabs, each of which tries one kind of model with the visitor's own key. A tab loads its script when it is opened.

import { find, make } from "./playground_dom.js";
import { onNotice } from "./playground_api.js";
import { startChat } from "./playground_chat.js";

const LOAD = {
  chat: async () => startChat,
  images: async () => (await import("./playground_media.js")).startImages,
  speech: async () => (await import("./playground_media.js")).startSpeech,
  videos: async () => (await import("./playground_videos.js")).startVideos,
  realtime: async () => (await import("./playground_realtime.js")).startRealtime,
};
const opened = new Set();

/** Start the script of a tab once; until then nothing in its panel can be used. */
async function open(name) {
  if (opened.has(name)) return;
  opened.add(name);
  const panel = find(`panel-${name}`);
  panel.inert = true;
  try {
    const start = await LOAD[name]();
    start(panel, models[name]);
    panel.inert = false;
  } catch {
    notify(translate("A part of this page cannot be loaded. Check the connection, then reload the page."));
  }
}

function notify(text) {
  find("notice").textContent = text;
  find("notice").hidden = !text;
}

function startTabs(tabs) {
  const select = (tab) => {
    const name = tab.id.slice(4);
    for (const other of tabs) {
      const isSelected = other === tab;
      other.setAttribute("aria-selected", String(isSelected));
      other.tabIndex = isSelected ? 0 : -1;
      find(other.getAttribute("aria-controls")).hidden = !isSelected;
    }
    history.replaceState(null, "", `${location.search}#${name}`);
    open(name);
  };
  tabs.forEach((tab, at) => {
    tab.addEventListener("click", () => select(tab));
    tab.addEventListener("keydown", (event) => {
      const next = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: -1 }[event.key];
      if (next === undefined) return;
      event.preventDefault();
      const wanted = tabs.at(next % tabs.length);
      wanted.focus();
      select(wanted);
    });
  });
  const wanted = findWantedTab() ?? location.hash.slice(1);
  select(tabs.find((tab) => tab.id === `tab-${wanted}`) ?? tabs[0]);
}

/** The tab for the model that the address names, with the model chosen; undefined without one. */
function findWantedTab() {
  const model = new URLSearchParams(location.search).get("model");
  const choices = [...root.querySelectorAll("select.models")].filter((choice) => [...choice.options].some(({ value }) => value === model));
  for (const choice of choices) {
    choice.value = model;
    choice.dispatchEvent(new Event("change"));
  }
  return choices[0]?.id.replace("-model", "");
}

const root = find("playground");
const models = JSON.parse(root?.dataset.models ?? "{}");
if (root) {
  onNotice(notify);
  for (const [name, list] of Object.entries(models)) {
    const options = list.map(({ id, title }) => make("option", { value: id }, title === id ? id : `${title} (${id})`));
    find(`panel-${name}`).querySelector("select.models").append(...options);
  }
  if (matchMedia("(max-width: 48rem)").matches) {
    for (const settings of root.querySelectorAll("details.settings")) settings.open = false;
  }
  root.hidden = false;
  startTabs([...root.querySelectorAll("[role=tab]")]);
}
