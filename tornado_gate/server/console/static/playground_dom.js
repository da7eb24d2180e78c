// Elements of a page. Text from models and callers becomes text nodes only, never HTML.

/** A new element. `properties` are set as properties, except `class`, `role` and those with a hyphen; children may be texts. */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "class") element.className = value;
    else if (name === "role" || name.includes("-")) element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children);
  return element;
}

/** The element with this id. */
export const find = (id) => document.getElementById(id);

/** The number in a field, or undefined if it is empty. */
export const readNumber = (id) => (find(id).value.trim() === "" ? undefined : Number(find(id).value));

/** The text in a field, or undefined if it is empty. */
export const readText = (id) => find(id).value.trim() || undefined;

/** The JSON in a field; undefined if it is empty. Throws an Error for people. `kind`: "object" or "list". */
export function readJson(id, kind) {
  const text = find(id).value.trim();
  if (!text) return undefined;
  const label = find(id).labels[0].textContent;
  let value;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw fieldError(id, translate("“{label}” is not valid JSON: {reason}", { label, reason: error.message }));
  }
  const fits = kind === "list" ? Array.isArray(value) : value !== null && typeof value === "object" && !Array.isArray(value);
  if (fits) return value;
  throw fieldError(id, kind === "list"
    ? translate("“{label}” must be a JSON list, such as {example}.", { label, example: "[…]" })
    : translate("“{label}” must be a JSON object, such as {example}.", { label, example: "{…}" }));
}

function fieldError(id, message) {
  const field = find(id);
  field.setAttribute("aria-invalid", "true");
  field.addEventListener("input", () => field.removeAttribute("aria-invalid"), { once: true });
  field.closest("details")?.setAttribute("open", "");
  field.focus();
  return new Error(message);
}

/** A copy without the members that are undefined. */
export const omitEmpty = (values) => Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));

/** "0.42 s" of milliseconds. */
export const formatTime = (milliseconds) => `${(milliseconds / 1000).toFixed(2)} s`;

/** A link that saves a file. */
export const makeDownload = (address, name, label = translate("Download")) =>
  make("a", { class: "button plain", href: address, download: name }, label);

/** The data URL of a file. Throws an Error for people if it is too large. */
export function readDataUrl(file, mostBytes = 8 * 1024 * 1024) {
  const { name } = file;
  if (file.size > mostBytes) {
    throw new Error(translate("The file {name} is larger than {size} MiB.", { name, size: mostBytes / 1048576 }));
  }
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(new Error(translate("The file {name} cannot be read.", { name })));
    reader.readAsDataURL(file);
  });
}

/** An address of a file of the gateway, at the host from which this page came; any other address unchanged. */
export function localAddress(address) {
  const base = find("playground").dataset.publicUrl;
  return address.startsWith(`${base}/`) ? location.origin + address.slice(base.length) : address;
}

/** A message about a failed request: what failed in words, and the body of the answer. */
export function makeError(error) {
  const box = make("div", { class: "notice error", role: "alert" }, make("p", {}, error.message));
  if (error.link) box.append(make("p", {}, make("a", { class: "button", href: error.link }, error.linkText)));
  if (error.body) {
    box.append(make("details", {}, make("summary", {}, translate("Body of the answer")), make("pre", { tabIndex: 0 }, error.body)));
  }
  return box;
}
