// Realtime voice: a WebSocket to the gateway, the microphone, and the answer as sound and text.

import { RequestFailed, request } from "./playground_api.js";
import { Loudspeaker, openMicrophone } from "./playground_audio.js";
import { find, make, makeError, omitEmpty, readText } from "./playground_dom.js";

const PATH = "/v1/realtime";
const SECRET_SECONDS = 60;
const RAW_EVENTS = 500;

let session = null;
let raw;

export function startRealtime(panel) {
  raw = new RawEvents(panel);
  find("realtime-open").addEventListener("click", () => report(openSession()));
  find("realtime-close").addEventListener("click", () => session?.close());
  find("realtime-microphone").addEventListener("click", () => report(session.toggleMicrophone()));
  find("realtime-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const text = find("realtime-input").value;
    if (!text.trim()) return;
    find("realtime-form").reset();
    report(openSession().then((opened) => opened.sendText(text)));
  });
  addEventListener("pagehide", () => session?.close());
}

/** Show the error of a promise. */
function report(promise) {
  promise.catch((error) => append(makeError(explainMicrophone(error))));
}

function explainMicrophone(error) {
  if (error.name === "NotAllowedError") {
    return new Error(translate("The browser does not allow the microphone for this page. Allow it, or write."));
  }
  if (error.name === "NotFoundError") return new Error(translate("There is no microphone. Write a message instead."));
  return error;
}

function openSession() {
  if (!session || session.isOver) {
    session = new Session(find("realtime-model").value);
    const opening = session;
    setState(translate("Connecting …"), true);
    opening.ready.catch(() => opening.end(translate("No session.")));
  }
  return session.ready;
}

function setState(text, isOpen) {
  find("realtime-state").textContent = text;
  find("realtime-open").disabled = isOpen;
  find("realtime-close").disabled = !isOpen;
  find("realtime-microphone").disabled = !isOpen;
  for (const id of ["model", "instructions", "voice", "turns", "output"]) find(`realtime-${id}`).disabled = isOpen;
}

function append(element) {
  const log = find("realtime-log");
  log.querySelector(".empty")?.remove();
  log.append(element);
  log.scrollTop = log.scrollHeight;
  return element;
}

function addTurn(who, text) {
  const words = make("p", { class: "text" }, text);
  append(make("article", { class: `turn ${who}`, "aria-label": who === "user" ? translate("You") : translate("Answer") },
    make("h2", {}, who === "user" ? translate("You") : translate("Model")), words));
  return words;
}

/** One connection. `ready` is the session itself once it can be used. */
class Session {
  constructor(model) {
    this.isOver = false;
    this.microphone = null;
    this.heardSeconds = 0;
    this.answer = null;
    this.loudspeaker = new Loudspeaker();
    this.ready = this.#open(model);
  }

  async #open(model) {
    const secret = await this.#makeSecret(model);
    const url = new URL(`${PATH}?model=${encodeURIComponent(model)}`, location);
    url.protocol = url.protocol.replace("http", "ws");
    this.socket = new WebSocket(url, ["realtime", `openai-insecure-api-key.${secret}`]);
    await new Promise((resolve, reject) => {
      this.socket.onmessage = ({ data }) => this.#take(JSON.parse(data), resolve);
      this.socket.onclose = ({ code, reason }) => {
        reject(new RequestFailed(`${translate("The session could not be opened ({code}).", { code })} ${reason}`));
        const isUsual = code === 1000;
        this.end(isUsual ? translate("The session has ended.") : `${translate("The session has ended ({code}).", { code })} ${reason}`);
      };
    });
    this.#send({ type: "session.update", session: this.#readSettings() });
    setState(translate("The session is open."), true);
    return this;
  }

  /**
   * A secret that opens a session of the model, and nothing else. Throws RequestFailed.
   *
   * A browser hides why a WebSocket was refused; this request is refused for the same reasons, in words.
   */
  async #makeSecret(model) {
    const body = { session: { type: "realtime", model }, expires_after: { anchor: "created_at", seconds: SECRET_SECONDS } };
    const response = await request(`${PATH}/client_secrets`, { method: "POST", body });
    return (await response.json()).value;
  }

  #readSettings() {
    const isSpoken = find("realtime-output").value === "audio";
    const detection = find("realtime-turns").value;
    return omitEmpty({
      type: "realtime",
      instructions: readText("realtime-instructions"),
      output_modalities: [isSpoken ? "audio" : "text"],
      audio: {
        input: { format: { type: "audio/pcm", rate: 24000 }, turn_detection: detection === "none" ? null : { type: detection } },
        output: omitEmpty({ format: { type: "audio/pcm", rate: 24000 }, voice: readText("realtime-voice") }),
      },
    });
  }

  #send(event) {
    raw.add("sent", event);
    this.socket.send(JSON.stringify(event));
  }

  /** Take an event of the gateway. Their names are those of the current API, or those before it. */
  #take(event, resolve) {
    raw.add("received", event);
    switch (event.type.replace("response.output_", "response.")) {
      case "session.created":
        resolve();
        break;
      case "response.created":
        this.answer = null;
        break;
      case "response.text.delta":
      case "response.audio_transcript.delta":
        this.answer ??= addTurn("assistant", "");
        this.answer.append(event.delta);
        break;
      case "response.audio.delta":
        this.loudspeaker.play(event.delta);
        find("realtime-log").dataset.seconds = this.loudspeaker.seconds.toFixed(2);
        break;
      case "input_audio_buffer.speech_started":
        this.loudspeaker.silence();
        break;
      case "input_audio_buffer.committed":
        addTurn("user", translate("(spoken)"));
        break;
      case "conversation.item.input_audio_transcription.completed":
        addTurn("user", event.transcript);
        break;
      case "response.done":
        this.#finish(event.response);
        break;
      case "error":
        append(makeError(new RequestFailed(event.error.message, { body: JSON.stringify(event, null, 2) })));
        break;
    }
  }

  #finish(response) {
    this.answer = null;
    const usage = response?.usage;
    const words = usage
      ? ` ${translate("{input} input and {output} output tokens.", { input: usage.input_tokens, output: usage.output_tokens })}`
      : "";
    const failure = response?.status_details?.error?.message;
    if (response?.status === "failed") append(makeError(new Error(`${translate("The answer failed.")} ${failure ?? ""}`)));
    setState(`${translate("The session is open.")}${words}`, true);
  }

  sendText(text) {
    addTurn("user", text);
    const content = [{ type: "input_text", text }];
    this.#send({ type: "conversation.item.create", item: { type: "message", role: "user", content } });
    this.#send({ type: "response.create" });
  }

  async toggleMicrophone() {
    const button = find("realtime-microphone");
    if (this.microphone) {
      await this.#stopMicrophone();
      if (find("realtime-turns").value === "none" && this.heardSeconds) {
        this.#send({ type: "input_audio_buffer.commit" });
        this.#send({ type: "response.create" });
      }
      return;
    }
    this.heardSeconds = 0;
    this.microphone = await openMicrophone((audio, level, seconds) => {
      if (this.isOver) return;
      this.heardSeconds += seconds;
      find("realtime-level").value = level;
      this.#send({ type: "input_audio_buffer.append", audio });
    });
    if (this.isOver) await this.#stopMicrophone();
    else {
      button.textContent = translate("Stop the microphone");
      button.setAttribute("aria-pressed", "true");
    }
  }

  async #stopMicrophone() {
    const microphone = this.microphone;
    this.microphone = null;
    const button = find("realtime-microphone");
    button.textContent = translate("Start the microphone");
    button.setAttribute("aria-pressed", "false");
    find("realtime-level").value = 0;
    await microphone?.stop();
  }

  /** Close the connection. */
  close() {
    this.socket?.close(1000);
    this.end(translate("The session has ended."));
  }

  /** Free the microphone and the loudspeaker. */
  end(words) {
    if (this.isOver) return;
    this.isOver = true;
    this.#stopMicrophone();
    this.loudspeaker.close();
    raw.finish();
    setState(words, false);
  }
}

/** The events of a session as JSON, without the sound in them. */
class RawEvents {
  constructor(panel) {
    this.lines = [];
    this.text = make("pre", { tabIndex: 0, role: "region", "aria-label": translate("Events") });
    this.box = make("details", { class: "card" }, make("summary", {}, translate("Events")), this.text);
    this.box.addEventListener("toggle", () => this.finish());
    panel.querySelector(".report").append(this.box);
  }

  add(direction, event) {
    const sound = event.type.endsWith("audio.delta") ? "delta" : "audio";
    const isLong = typeof event[sound] === "string" && event[sound].length > 60;
    const shown = isLong ? { ...event, [sound]: `(${event[sound].length} characters of base64)` } : event;
    this.lines.push(`${direction === "sent" ? ">" : "<"} ${JSON.stringify(shown)}`);
    if (this.lines.length > RAW_EVENTS) this.lines.shift();
    if (this.box.open) this.finish();
  }

  finish() {
    if (this.box.open) this.text.textContent = this.lines.join("\n");
  }
}
