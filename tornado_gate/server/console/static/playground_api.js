// Requests to the gateway's API with the short-lived key of this session, which is kept in this module's memory only.

const KEY_ADDRESS = "/console/playground/key";
const SPARE_MILLISECONDS = 60_000;
const STATUS_WORDS = {
  400: translate("The request is not valid"),
  401: translate("The key is not valid"),
  403: translate("This is not allowed"),
  404: translate("Not found"),
  413: translate("The request is too large"),
  429: translate("A limit is reached"),
  502: translate("The provider failed"),
  503: translate("The service is not available now"),
  504: translate("The provider did not answer in time"),
};

/** A failure that a person reads. `body` is that of the answer, `link` and `linkText` say where to go. */
export class RequestFailed extends Error {
  constructor(message, details = {}) {
    super(message);
    Object.assign(this, details);
  }
}

let key = null;
let expires = 0;
let pending = null;
let showNotice = () => {};

/** Set the function that shows a notice: it gets a text, "" to hide it. */
export function onNotice(show) {
  showNotice = show;
}

/** The key of the session. Makes one if there is none, or if it expires soon. Throws RequestFailed. */
export async function getKey() {
  if (key !== null && expires - Date.now() > SPARE_MILLISECONDS) return key;
  pending ??= makeKey().finally(() => { pending = null; });
  return pending;
}

async function makeKey() {
  key = null;
  let response;
  try {
    response = await fetch(KEY_ADDRESS, {
      method: "POST",
      headers: { Accept: "application/json", "X-Xsrftoken": document.body.dataset.xsrf },
      redirect: "manual",
    });
  } catch (error) {
    throw new RequestFailed(translate("The gateway cannot be reached: {reason}", { reason: error.message }));
  }
  if (response.type === "opaqueredirect") {
    throw new RequestFailed(translate("Your session has ended. Sign in again to go on."), {
      link: `/console/login?next=${encodeURIComponent(location.pathname)}`,
      linkText: translate("Sign in"),
    });
  }
  if (!response.ok) throw await explainResponse(response);
  const made = await response.json();
  key = made.key;
  expires = made.expires * 1000;
  return key;
}

/** Forget the key, because the gateway does not accept it any more. */
export function forgetKey() {
  key = null;
}

/** Send a request and return the answer, of any status but 401: then it is sent once more with a new key. */
export async function send(path, options = {}) {
  let response = await sendOnce(path, options);
  if (response.status === 401) {
    forgetKey();
    response = await sendOnce(path, options);
    if (response.status !== 401) {
      showNotice(translate("The key of this page was revoked or had expired. A new key was made, and the request was sent again."));
    }
  }
  return response;
}

async function sendOnce(path, { method = "GET", body, signal } = {}) {
  const headers = { Authorization: `Bearer ${await getKey()}` };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  try {
    return await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new RequestFailed(translate("The gateway cannot be reached: {reason}", { reason: error.message }));
  }
}

/** Send a request and return the answer. Throws RequestFailed for an answer that is an error. */
export async function request(path, options) {
  const response = await send(path, options);
  if (!response.ok) throw await explainResponse(response);
  return response;
}

/** An answer with an error, in words. */
export async function explainResponse(response) {
  const text = await response.text();
  let message = "";
  try {
    message = JSON.parse(text).error.message;
  } catch {
    // A proxy in front of the gateway may answer with a page.
  }
  const words = STATUS_WORDS[response.status] ?? translate("The request failed");
  const wait = response.headers.get("retry-after");
  const again = wait ? ` ${translate("Try again in {seconds} s.", { seconds: wait })}` : "";
  return new RequestFailed(`${words} (${response.status}). ${message}${again}`, { body: formatJson(text), response });
}

/** JSON with line breaks; any other text unchanged. */
export function formatJson(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** The data of each server-sent event in the body of an answer. */
export async function* readEvents(response) {
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  let data = [];
  let isDone = false;
  try {
    for (;;) {
      const { value, done } = await reader.read();
      isDone = done;
      if (done) return;
      const lines = (rest + decoder.decode(value, { stream: true })).split(/\r\n|\n|\r(?!$)/);
      rest = lines.pop();
      for (const line of lines) {
        if (line.startsWith("data:")) {
          data.push(line.slice(line[5] === " " ? 6 : 5));
        } else if (line === "" && data.length) {
          yield data.join("\n");
          data = [];
        }
      }
    }
  } finally {
    if (!isDone) reader.cancel().catch(() => {});
  }
}
