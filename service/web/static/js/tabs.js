// Texts to copy, one tab each, after the ARIA pattern: arrows move between tabs, Tab leaves them.
import { h } from "./dom.js";
import { copyButton } from "./export.js";

const STEPS = { ArrowRight: 1, ArrowLeft: -1 };
let made = 0;

/** Return tabs over `[[name, text]]` with a button that copies the text that is shown. */
export function textTabs(label, texts) {
  const id = `tab-text-${(made += 1)}`;
  const panel = h("pre", { class: "code", id, tabindex: "0", role: "tabpanel", "aria-label": label });
  const tabs = h("div", { class: "tabs", role: "tablist", "aria-label": label });
  const select = (place) => {
    panel.textContent = texts[place][1];
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
  return h("div", { class: "text-tabs" }, h("div", { class: "row is-end" }, copyButton("Copy", () => panel.textContent)), tabs, panel);
}
