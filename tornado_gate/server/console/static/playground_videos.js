// Video: a task, its progress, then a player.

import { RequestFailed, request } from "./playground_api.js";
import { find, localAddress, make, makeDownload, makeError, omitEmpty, readDataUrl, readJson, readText } from "./playground_dom.js";
import { Report } from "./playground_report.js";

const PATH = "/v1/videos";
const POLL_MILLISECONDS = 1000;
const IN_PROGRESS = translate("The video is being made");
const STATUS_WORDS = { queued: translate("The task waits"), in_progress: IN_PROGRESS, pending: IN_PROGRESS };

let report;
let task = null;

export function startVideos(panel) {
  report = new Report(panel, "videos");
  find("videos-form").addEventListener("submit", (event) => {
    event.preventDefault();
    if (!task) run();
  });
  find("videos-cancel").addEventListener("click", cancel);
}

async function readBody() {
  const image = find("videos-image").files[0];
  return omitEmpty({
    model: find("videos-model").value,
    prompt: find("videos-prompt").value,
    seconds: readText("videos-seconds"),
    size: readText("videos-size"),
    image: image && (await readDataUrl(image)),
    ...readJson("videos-more", "object"),
  });
}

async function run() {
  task = { id: "", stop: new AbortController() };
  setBusy(true);
  try {
    const body = await readBody();
    report.start("POST", PATH, body);
    const response = await request(PATH, { method: "POST", body, signal: task.stop.signal });
    report.setAnswer(response);
    await follow(await readTask(response));
  } catch (error) {
    setStatus("");
    if (error.name !== "AbortError") {
      if (error.response) report.setAnswer(error.response);
      if (error.body) report.addEvent(error.body);
      find("videos-result").replaceChildren(makeError(error));
    }
  } finally {
    if (report.request) report.finish();
    task = null;
    setBusy(false);
  }
}

async function readTask(response) {
  const text = await response.text();
  report.addEvent(text);
  return JSON.parse(text);
}

/** Show the progress of a task until it has ended, then the video. */
async function follow(state) {
  task.id = state.id;
  const bar = make("progress", { max: 100, "aria-label": translate("Progress of the video") });
  find("videos-result").replaceChildren(bar);
  while (state.status !== "completed" && state.status !== "failed") {
    bar.value = state.progress;
    setStatus(`${STATUS_WORDS[state.status] ?? state.status}: ${state.progress} %`);
    await wait(POLL_MILLISECONDS, task.stop.signal);
    state = await readTask(await request(`${PATH}/${state.id}`, { signal: task.stop.signal }));
  }
  setStatus("");
  if (state.status === "failed") {
    const body = JSON.stringify(state, null, 2);
    throw new RequestFailed(`${translate("The video could not be made.")} ${state.error?.message ?? ""}`, { body });
  }
  await show(state);
}

function wait(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    }, { once: true });
  });
}

async function show(state) {
  const addresses = state.urls?.length ? state.urls.map(localAddress) : [await fetchVideo(state.id)];
  const players = addresses.flatMap((address, at) => {
    const label = translate("Video {number}", { number: at + 1 });
    const player = make("video", { controls: true, src: address, preload: "metadata", "aria-label": label });
    const note = make("p", { class: "hint", hidden: true }, translate("This browser cannot play the video. Download it."));
    player.addEventListener("error", () => { note.hidden = false; });
    return [player, note, makeDownload(address, `video-${at + 1}.mp4`)];
  });
  find("videos-result").replaceChildren(...players);
  const facts = [state.seconds && `${state.seconds} s`, state.size].filter(Boolean).join(", ");
  setStatus(facts ? translate("The video is ready: {facts}.", { facts }) : translate("The video is ready."));
}

/** The address of a video that the gateway gives to no one without a key. */
async function fetchVideo(id) {
  const response = await request(`${PATH}/${id}/content`);
  return URL.createObjectURL(await response.blob());
}

async function cancel() {
  if (!task) return;
  const { id, stop } = task;
  stop.abort();
  find("videos-result").replaceChildren(make("p", { class: "quiet" }, translate("The task is cancelled.")));
  if (id) await request(`${PATH}/${id}`, { method: "DELETE" }).catch((error) => find("videos-result").append(makeError(error)));
}

function setBusy(isBusy) {
  find("videos-form").querySelector("[type=submit]").disabled = isBusy;
  find("videos-cancel").disabled = !isBusy;
}

function setStatus(text) {
  find("videos-status").textContent = text;
}
