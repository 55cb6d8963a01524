// What every page has: the theme, and the button that forgets the key.
import { byId } from "./dom.js";
import { forgetKey, storedKey } from "./key.js";

const THEMES = ["auto", "light", "dark"];
const STORED = "headroom.theme";

function shownTheme() {
  return document.documentElement.dataset.theme ?? "auto";
}

function setTheme(theme) {
  if (theme === "auto") {
    delete document.documentElement.dataset.theme;
    localStorage.removeItem(STORED);
  } else {
    document.documentElement.dataset.theme = theme;
    localStorage.setItem(STORED, theme);
  }
  byId("theme").textContent = `Theme: ${theme}`;
  document.dispatchEvent(new CustomEvent("headroom:theme"));
}

byId("theme").textContent = `Theme: ${shownTheme()}`;
byId("theme").addEventListener("click", () => setTheme(THEMES[(THEMES.indexOf(shownTheme()) + 1) % THEMES.length]));
byId("forget-key").hidden = storedKey() === null;
byId("forget-key").addEventListener("click", forgetKey);
