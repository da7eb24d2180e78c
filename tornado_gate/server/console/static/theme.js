// Loaded before the page is drawn, so that a chosen theme never flashes. `console.js` has the choice in the footer.
"use strict";

const THEME_CHOICE = "gate-theme";

function readTheme() {
  try {
    const theme = localStorage.getItem(THEME_CHOICE);
    return ["light", "dark"].includes(theme) ? theme : "system";
  } catch {
    return "system";
  }
}

function applyTheme(theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}
applyTheme(readTheme());
