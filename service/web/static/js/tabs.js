// Texts to copy, one tab each, after the ARIA pattern: arrows move between tabs, Tab leaves them.
import { h } from "./dom.js";
import { copyButton, downloadButton } from "./export.js";

const STEPS = { ArrowRight: 1, ArrowLeft: -1 };
let made = 0;

/** Return tabs over `[[name, text, file]]` with buttons that copy the text that is shown and, where `file` names one, save it. */
export function textTabs(label, texts) {
  const id = `tab-text-${(made += 1)}`;
  const panel = h("pre", { class: "code", id, tabindex: "0", role: "tabpanel", "aria-label": label });
  const tabs = h("div", { class: "tabs", role: "tablist", "aria-label": label });
  let shown = texts[0];
  const download = downloadButton(() => ({ name: shown[2], text: shown[1] }));
  const select = (place) => {
    shown = texts[place];
    panel.textContent = shown[1];
    download.hidden = shown[2] === undefined;
    [...tabs.children].forEach((tab, index) => {
      tab.setAttribute("aria-selected", String(index === place));
      tab.tabIndex = index === place ? 0 : -1;
    });
  };
  tabs.append(...texts.map(([name], place) => h("button", { type: "button", role: "tab", "aria-controls": id, onclick: () => select(place) }, name)));
  tabs.addEventListener("keydown", ({ key }) => {
    const at = [...tabs.children].indexOf(document.activeElement);
    if (STEPS[key] === undefined || at < 0) return;
    const next = (at + STEPS[key] + texts.length) % texts.length;
    select(next);
    tabs.children[next].focus();
  });
  select(0);
  return h("div", { class: "text-tabs" }, h("div", { class: "row is-end" }, copyButton("Copy", () => panel.textContent), download), tabs, panel);
}
