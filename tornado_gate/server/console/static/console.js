// Small helpers that every page uses. Pages work without them, except the playground.
"use strict";

for (const button of document.querySelectorAll("[data-copy]")) {
  button.addEventListener("click", async () => {
    const source = document.getElementById(button.dataset.copy);
    await navigator.clipboard.writeText(source.value ?? source.textContent);
    const label = button.textContent;
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = label; }, 2000);
  });
}

const menu = document.querySelector("button.menu");
menu?.addEventListener("click", () => {
  const open = menu.getAttribute("aria-expanded") !== "true";
  menu.setAttribute("aria-expanded", String(open));
  document.getElementById("navigation").classList.toggle("open", open);
});

// A button with data-confirm asks in a dialog before its form is sent.
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
    for (const [value, label] of [["yes", button.textContent.trim()], ["no", "Cancel"]]) {
      const choice = document.createElement("button");
      choice.value = value;
      choice.textContent = label;
      if (value === "yes") choice.className = "danger";
      form.append(choice);
    }
    dialog.append(text, form);
    document.body.append(dialog);
    dialog.addEventListener("close", () => {
      dialog.remove();
      if (dialog.returnValue === "yes") {
        button.dataset.confirmed = "1";
        button.form.requestSubmit(button);
      } else {
        button.focus();
      }
    });
    dialog.showModal();
  });
}
