// The playground: tabs, each of which tries one kind of model with the visitor's own key.

import { find, make } from "./playground_dom.js";
import { onNotice } from "./playground_api.js";
import { startChat } from "./playground_chat.js";
import { startImages, startSpeech } from "./playground_media.js";
import { startVideos } from "./playground_videos.js";
import { startRealtime } from "./playground_realtime.js";

const START = { chat: startChat, images: startImages, speech: startSpeech, videos: startVideos, realtime: startRealtime };

function startTabs(tabs) {
  const select = (tab) => {
    for (const other of tabs) {
      const isSelected = other === tab;
      other.setAttribute("aria-selected", String(isSelected));
      other.tabIndex = isSelected ? 0 : -1;
      find(other.getAttribute("aria-controls")).hidden = !isSelected;
    }
    history.replaceState(null, "", `${location.search}#${tab.id.slice(4)}`);
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
if (root) {
  const models = JSON.parse(root.dataset.models);
  onNotice((text) => {
    find("notice").textContent = text;
    find("notice").hidden = !text;
  });
  for (const [name, list] of Object.entries(models)) {
    const panel = find(`panel-${name}`);
    const options = list.map(({ id, title }) => make("option", { value: id }, title === id ? id : `${title} (${id})`));
    panel.querySelector("select.models").append(...options);
    START[name](panel, list);
  }
  if (matchMedia("(max-width: 48rem)").matches) {
    for (const settings of root.querySelectorAll("details.settings")) settings.open = false;
  }
  root.hidden = false;
  startTabs([...root.querySelectorAll("[role=tab]")]);
}
