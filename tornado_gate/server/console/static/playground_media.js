// Images and speech: one request, whose answer is shown as pictures or in a player.

import { request } from "./playground_api.js";
import { find, localAddress, make, makeDownload, makeError, omitEmpty, readJson, readNumber, readText } from "./playground_dom.js";
import { Report } from "./playground_report.js";

const SIZES = {
  one: ["256x256", "512x512", "1024x1024"],
  two: ["1024x1024", "1792x1024", "1024x1792"],
  three: ["1024x1024", "1536x1024", "1024x1536", "auto"],
};
const FAMILY_FIELDS = {
  two: { quality: ["standard", "hd"], style: ["vivid", "natural"] },
  three: {
    quality: ["low", "medium", "high", "auto"],
    background: ["transparent", "opaque", "auto"],
    output_format: ["png", "webp", "jpeg"],
  },
};
const FIELD_LABELS = {
  quality: translate("Quality"),
  style: translate("Style"),
  background: translate("Background"),
  output_format: translate("Output format"),
};
const ALL_SIZES = [...new Set(Object.values(SIZES).flat())];

export function startImages(panel, models) {
  const report = new Report(panel, "images");
  const select = find("images-model");
  const showFamily = () => setFamily(models.find(({ id }) => id === select.value)?.family);
  select.addEventListener("change", showFamily);
  showFamily();
  startForm("images", report, "/v1/images/generations", readImagesBody, showImages);
}

/** Offer the sizes and the parameters of a family of image models; an unknown family gets all sizes and no further fields. */
function setFamily(family) {
  find("images-sizes").replaceChildren(...(SIZES[family] ?? ALL_SIZES).map((value) => make("option", { value })));
  const fields = Object.entries(FAMILY_FIELDS[family] ?? {}).map(([name, choices]) => {
    const options = [make("option", { value: "" }, translate("default")), ...choices.map((choice) => make("option", {}, choice))];
    return make("div", {}, make("label", { htmlFor: `images-${name}` }, FIELD_LABELS[name]),
      make("select", { id: `images-${name}`, name }, ...options));
  });
  find("images-family").replaceChildren(...fields);
}

function readImagesBody() {
  const chosen = [...find("images-family").querySelectorAll("select")].map(({ name, value }) => [name, value || undefined]);
  return omitEmpty({
    model: find("images-model").value,
    prompt: find("images-prompt").value,
    size: readText("images-size"),
    n: readNumber("images-n"),
    ...Object.fromEntries(chosen),
    ...readJson("images-more", "object"),
  });
}

async function showImages(response, report) {
  const text = await response.text();
  report.addEvent(text);
  const answer = JSON.parse(text);
  report.setUsage(answer.usage);
  const format = answer.output_format ?? "png";
  return Promise.all(answer.data.map(async (image, at) => {
    const address = image.b64_json ? `data:image/${format};base64,${image.b64_json}` : localAddress(image.url);
    const name = `image-${at + 1}.${format}`;
    if (!/^(data:|blob:)/.test(address) && new URL(address, location).origin !== location.origin) {
      const label = `${translate("Image {number}", { number: at + 1 })}: ${address}`;
      return make("p", {}, make("a", { href: address, rel: "noreferrer" }, label));
    }
    const picture = make("img", { src: address, alt: image.revised_prompt ?? find("images-prompt").value });
    await picture.decode();
    return make("figure", {}, picture, make("figcaption", {}, makeDownload(address, name)));
  }));
}

export function startSpeech(panel) {
  const report = new Report(panel, "speech");
  startForm("speech", report, "/v1/audio/speech", readSpeechBody, showSpeech);
}

function readSpeechBody() {
  return omitEmpty({
    model: find("speech-model").value,
    input: find("speech-text").value,
    voice: find("speech-voice").value,
    response_format: find("speech-format").value,
    speed: readNumber("speech-speed"),
    ...readJson("speech-more", "object"),
  });
}

async function showSpeech(response, report) {
  const sound = await response.blob();
  report.addEvent(`(${sound.size} bytes of ${sound.type})`);
  const address = URL.createObjectURL(sound);
  const format = find("speech-format").value;
  const player = make("audio", { controls: true, src: address, "aria-label": translate("Speech") });
  const parts = [player, makeDownload(address, `speech.${format}`)];
  if (!player.canPlayType(sound.type)) {
    parts.unshift(make("p", {}, translate("This browser cannot play {type}. Download the file.", { type: sound.type })));
  }
  return parts;
}

/** Let a form send its request; what `show` makes of the answer replaces the earlier result. */
function startForm(name, report, path, readBody, show) {
  const form = find(`${name}-form`);
  const result = find(`${name}-result`);
  const button = form.querySelector("[type=submit]");
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (button.disabled) return;
    button.disabled = true;
    result.setAttribute("aria-busy", "true");
    const progress = make("progress", { "aria-label": translate("Work") });
    result.prepend(make("p", { class: "quiet" }, progress, ` ${translate("The request is being processed …")}`));
    try {
      const body = readBody();
      report.start("POST", path, body);
      const response = await request(path, { method: "POST", body });
      report.setAnswer(response);
      const shown = await show(response, report);
      for (const old of result.querySelectorAll("audio")) URL.revokeObjectURL(old.src);
      result.replaceChildren(...shown);
    } catch (error) {
      if (error.response) report.setAnswer(error.response);
      if (error.body) report.addEvent(error.body);
      result.replaceChildren(makeError(error));
    } finally {
      if (report.request) report.finish();
      button.disabled = false;
      result.removeAttribute("aria-busy");
    }
  });
}
