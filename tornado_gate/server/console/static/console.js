// Small helpers that every page uses. Pages work without them, except the playground.
"use strict";

// The layout has the messages of scripts in the page's language, unless that is English.
const MESSAGES = JSON.parse(document.getElementById("messages")?.textContent ?? "{}");

/** A text in the language of the page, with `values` in place of its {names}. Modules call this function too. */
function translate(text, values = {}) {
  return (MESSAGES[text] ?? text).replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
}

for (const button of document.querySelectorAll("[data-copy]")) {
  button.addEventListener("click", async () => {
    const source = document.getElementById(button.dataset.copy);
    const done = await copyText(source.value ?? source.textContent, source);
    const label = button.dataset.label ??= button.textContent;
    button.textContent = done ? translate("Copied") : translate("Press Ctrl+C");
    announce(done ? translate("Copied.") : translate("The text is selected: press Ctrl+C."));
    setTimeout(() => { button.textContent = label; }, 2000);
  });
}

// The clipboard exists on https and on this machine only; elsewhere the text is selected and copied as by hand.
async function copyText(text, source) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    getSelection().selectAllChildren(source);
    return document.execCommand("copy");
  }
}

function announce(text) {
  let status = document.getElementById("announcement");
  if (!status) {
    status = document.createElement("p");
    status.id = "announcement";
    status.className = "visually-hidden";
    status.setAttribute("role", "status");
    document.body.append(status);
  }
  status.textContent = text;
}

// The answer to a form that shows a secret: a reload must not send the form again.
for (const place of document.querySelectorAll("[data-once]")) {
  history.replaceState(null, "", place.dataset.once || location.href);
}

// Times are shown in the browser's zone. A button in the footer shows them in UTC, and remembers it for this browser.
const UTC_CHOICE = "gate-utc";
let showsUtc = readChoice();

function readChoice() {
  try {
    return localStorage.getItem(UTC_CHOICE) === "yes";
  } catch {
    return false;
  }
}

function showTimes(part) {
  for (const place of part.querySelectorAll("time[datetime]")) {
    const moment = new Date(place.dateTime);
    if (isNaN(moment)) continue;
    const text = moment.toLocaleString("sv-SE", {
      year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit",
      second: "seconds" in place.dataset ? "2-digit" : undefined, timeZone: showsUtc ? "UTC" : undefined, timeZoneName: "short",
    });
    if (place.title) place.title = text;
    else place.textContent = text;
  }
  for (const place of part.querySelectorAll("[data-day] :is(text, rect > title)")) showHour(place);
}

// The hours of a chart are written in UTC, as "13:00" or "13:00: a model, 5"; `data-day` is the day of its first bar.
function showHour(place) {
  place.dataset.utc ??= place.textContent;
  const moment = new Date(`${place.closest("[data-day]").dataset.day}T${place.dataset.utc.slice(0, 5)}Z`);
  const hour = moment.toLocaleTimeString("sv-SE", { hour: "2-digit", minute: "2-digit", timeZone: showsUtc ? "UTC" : undefined });
  place.textContent = hour + place.dataset.utc.slice(5);
}
showTimes(document);

if (document.querySelector("time[datetime], [data-day]") && new Date().getTimezoneOffset()) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "plain small";
  button.textContent = translate("Times in UTC");
  button.setAttribute("aria-pressed", String(showsUtc));
  button.addEventListener("click", () => {
    showsUtc = !showsUtc;
    button.setAttribute("aria-pressed", String(showsUtc));
    try {
      localStorage.setItem(UTC_CHOICE, showsUtc ? "yes" : "no");
    } catch { /* the choice is for this page only */ }
    showTimes(document);
  });
  document.querySelector("footer").append(" ", button);
}

// A part of a page that changes: it is fetched again every so many seconds, until the new one has no data-refresh.
function refreshLater(part) {
  setTimeout(async () => {
    if (document.hidden || part.contains(document.activeElement)) return refreshLater(part);
    const response = await fetch(location.href, { headers: { Accept: "text/html" } }).catch(() => null);
    if (!response) return refreshLater(part);
    if (!response.ok || response.redirected) return;
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const fresh = page.getElementById(part.id);
    if (!fresh) return;
    part.replaceWith(fresh);
    showTimes(fresh);
    if (fresh.dataset.refresh) refreshLater(fresh);
  }, Number(part.dataset.refresh) * 1000);
}
document.querySelectorAll("[data-refresh]").forEach(refreshLater);

// The texts of a form that was sent after the end of the session: they are kept in this tab until the visitor has signed in again.
const DRAFT = "gate-draft";
const isText = (field) => field.name && !["hidden", "password", "file", "submit", "checkbox", "radio"].includes(field.type);

document.addEventListener("submit", ({ target }) => {
  const action = target.getAttribute("action");
  if (target.method !== "post" || !action || action === "/console/login") return;
  const texts = [...target.elements].filter(isText).map((field) => [field.name, field.value]);
  sessionStorage.setItem(DRAFT, JSON.stringify({ action, texts }));
});

function restoreDraft() {
  const draft = JSON.parse(sessionStorage.getItem(DRAFT) ?? "null");
  if (location.pathname === "/console/login") {
    if (draft) sessionStorage.setItem(DRAFT, JSON.stringify({ ...draft, isLost: true }));
    return;
  }
  sessionStorage.removeItem(DRAFT);
  const form = draft?.isLost && [...document.forms].find((each) => each.getAttribute("action") === draft.action);
  for (const [name, value] of form ? draft.texts : []) {
    const field = form.elements[name];
    if (field && isText(field)) field.value = value;
  }
}
restoreDraft();

// The theme: light, dark, or as the system has it.
const themes = document.createElement("select");
themes.id = "theme";
const themeNames = [["system", translate("As the system")], ["light", translate("Light")], ["dark", translate("Dark")]];
for (const [value, label] of themeNames) {
  themes.append(new Option(label, value));
}
themes.value = readTheme();
themes.addEventListener("change", () => {
  applyTheme(themes.value);
  try {
    localStorage.setItem(THEME_CHOICE, themes.value);
  } catch { /* the choice is for this page only */ }
});
const themeForm = document.createElement("form");
const themeLabel = document.createElement("label");
themeLabel.htmlFor = themes.id;
themeLabel.textContent = translate("Theme");
themeForm.append(themeLabel, themes);
document.querySelector("footer").append(themeForm);

// Menus of rows: one is open at a time, wholly in sight; Escape and a click elsewhere close it.
function closeRowMenus(except) {
  for (const open of document.querySelectorAll("details.row-menu[open]")) {
    if (open !== except) open.open = false;
  }
}
document.addEventListener("click", ({ target }) => {
  if (!target.closest("dialog")) closeRowMenus(target.closest("details.row-menu"));
});
document.addEventListener("toggle", ({ target }) => {
  if (target.matches("details.row-menu[open]")) target.lastElementChild.scrollIntoView({ block: "nearest" });
}, true);
document.addEventListener("keydown", ({ key, target }) => {
  const open = target.closest?.("details.row-menu[open]");
  if (key !== "Escape" || !open) return;
  open.open = false;
  open.querySelector("summary").focus();
});

const menu = document.querySelector("button.menu");
menu?.addEventListener("click", () => {
  const open = menu.getAttribute("aria-expanded") !== "true";
  menu.setAttribute("aria-expanded", String(open));
  document.getElementById("navigation").classList.toggle("open", open);
});

// A button with data-confirm asks in a dialog before its form is sent. Without scripts the server asks on a page of its own.
for (const button of document.querySelectorAll("button[data-confirm]")) {
  button.addEventListener("click", (event) => {
    if (button.dataset.confirmed) return;
    event.preventDefault();
    const dialog = document.createElement("dialog");
    const text = document.createElement("p");
    text.textContent = button.dataset.confirm;
    const form = document.createElement("form");
    form.method = "dialog";
    form.className = "actions";
    for (const [value, label] of [["yes", button.textContent.trim()], ["no", translate("Cancel")]]) {
      const choice = document.createElement("button");
      choice.value = value;
      choice.textContent = label;
      choice.className = value === "yes" ? "danger" : "plain";
      form.append(choice);
    }
    dialog.append(text, form);
    document.body.append(dialog);
    dialog.addEventListener("close", () => {
      dialog.remove();
      if (dialog.returnValue === "yes") {
        button.dataset.confirmed = "1";
        const answer = document.createElement("input");
        answer.type = "hidden";
        answer.name = "confirmed";
        answer.value = "yes";
        button.form.append(answer);
        button.form.requestSubmit(button);
      } else {
        button.focus();
      }
    });
    dialog.showModal();
  });
}

// The choice of a vendor fills in its name and address, unless somebody has typed others.
const vendors = document.querySelector("select[data-vendors]");
if (vendors) {
  const known = JSON.parse(vendors.dataset.vendors);
  const fields = ["name", "base_url"].map((name) => vendors.form.elements[name]);
  let filled = known[vendors.value] ?? ["", ""];
  vendors.addEventListener("change", () => {
    const next = known[vendors.value] ?? ["", ""];
    fields.forEach((field, index) => {
      if (!field.value || field.value === filled[index]) field.value = next[index];
    });
    filled = next;
  });
}
