// What would help, what people reckon with instead, and what was taken for granted.
import { fill, h } from "../dom.js";
import { MISSING, count, exact, gib, seconds, signedPercent } from "../format.js";
import { emptyNote } from "../notice.js";

const VERDICTS = { fits: "fits", tight: "tight", does_not_fit: "does not fit" };

/** A verdict as a tag; told by its word, and by colour besides. */
export function verdictTag(verdict) {
  return h("span", { class: `tag is-${verdict}` }, VERDICTS[verdict] ?? verdict);
}

/** A change of a request in words: "optimizer: adamw_8bit, zero stage: 3". Parts of an object that stay as they were assumed are left out. */
export function changeWords(change, assumptions = []) {
  const stays = (path, part, value) => value === "none" || assumptions.includes(`workload.${path}.${part} = ${value}`);
  const words = (path, one) => {
    if (one === null || typeof one !== "object" || Array.isArray(one)) return one;
    const changed = Object.entries(one).filter(([part, each]) => !stays(path, part, each));
    return changed.map(([part, each]) => `${part} ${each}`).join(", ");
  };
  return Object.entries(change).map(([name, one]) => h("span", { class: "mono change" }, `${name}: ${words(name, one)}`));
}

const COLUMNS = ["", "Change", "Then it", "Saves", "GPUs", "Step", "Tokens/s", "Cost per token"];

/** List remedies, each with a button that makes it the question; `isLooking` says that they are still being looked for. */
export function showRemedies(panel, element, answer, { onApply, isLooking }) {
  panel.hidden = answer.verdict === "fits";
  if (panel.hidden || isLooking) {
    fill(element, emptyNote("Looking for what would help…"));
    return;
  }
  const conclusion = h("p", { class: "small" }, answer.remedy_search?.conclusion ?? "None of the changes that were tried would help.");
  if (answer.remedies.length === 0) {
    fill(element, conclusion);
    return;
  }
  const table = h(
    "table",
    { class: "data is-middle stacks" },
    h("thead", {}, h("tr", {}, COLUMNS.map((name, place) => h("th", { scope: "col", class: place > 2 ? "is-number" : null }, name || h("span", { class: "unseen" }, "Apply"))))),
    h("tbody", {}, answer.throughput && asAsked(answer), answer.remedies.map((remedy) => remedyRow(remedy, onApply, answer.assumptions))),
  );
  fill(element, table, conclusion);
}

function remedyRow(remedy, onApply, assumptions) {
  return h(
    "tr",
    {},
    h("td", {}, h("button", { type: "button", onclick: () => onApply(remedy.change) }, "Apply")),
    h("td", {}, h("div", { class: "changes" }, changeWords(remedy.change, assumptions)), remedy.effects.map((text) => h("div", { class: "why small" }, text))),
    h("td", { "data-label": "Then it" }, verdictTag(remedy.verdict)),
    h("td", { class: "is-number", title: exact(remedy.saves_bytes), "data-label": "Saves" }, gib(remedy.saves_bytes)),
    h("td", { class: "is-number", "data-label": "GPUs" }, count(remedy.num_gpus)),
    speedCells(remedy),
    h("td", { class: "is-number", "data-label": "Cost per token" }, remedy.cost_ratio === null ? MISSING : `× ${remedy.cost_ratio.toFixed(2)}`, remedy.usd_per_million_tokens !== null && h("div", { class: "why small" }, `$${remedy.usd_per_million_tokens.toFixed(2)} per million`)),
  );
}

/** The question itself, which the rows below are compared with. */
function asAsked(answer) {
  return h("tr", {}, h("td"), h("th", { scope: "row" }, "As asked"), h("td", {}, verdictTag(answer.verdict)), h("td"), h("td", { class: "is-number", "data-label": "GPUs" }, count(answer.num_gpus)), speedCells(answer.throughput), h("td", { class: "is-number", "data-label": "Cost per token" }, "× 1.00"));
}

function speedCells(timed) {
  return [seconds(timed.step_time_s), timed.tokens_per_second === null ? MISSING : count(Math.round(timed.tokens_per_second))].map((text, place) => h("td", { class: "is-number", "data-label": ["Step", "Tokens/s"][place] }, text));
}

/** Show rules of thumb and how far each is off. */
export function showRules(element, answer) {
  if (answer.rules_of_thumb.length === 0) {
    fill(element, emptyNote("No rule of thumb is about this kind of run."));
    return;
  }
  fill(
    element,
    h(
      "table",
      { class: "data stacks" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Rule"), h("th", { scope: "col", class: "is-number" }, "Says"), h("th", { scope: "col", class: "is-number" }, "Ours"), h("th", { scope: "col", class: "is-number" }, "Off by"))),
      h(
        "tbody",
        {},
        answer.rules_of_thumb.map((rule) =>
          h(
            "tr",
            {},
            h("th", { scope: "row" }, rule.name, h("div", { class: "why small" }, `${rule.why} (${rule.source})`)),
            ...[["Says", rule.bytes, rule.seconds], ["Ours", rule.our_bytes, rule.our_seconds]].map(([label, bytes, time]) => h("td", { class: "is-number", title: bytes === null ? null : exact(bytes), "data-label": label }, bytes === null ? seconds(time) : gib(bytes))),
            h("td", { class: "is-number", "data-label": "Off by" }, signedPercent(rule.off_by, 0)),
          ),
        ),
      ),
    ),
  );
}

/** List every default that was used. */
export function showAssumptions(element, answer) {
  fill(
    element,
    answer.assumptions.length === 0
      ? emptyNote("Nothing was assumed: the question says it all.")
      : h("ul", { class: "chips" }, answer.assumptions.map((text) => h("li", {}, h("code", {}, text)))),
  );
}

/** Show in each field that was left alone which default stands in for it. */
export function showDefaults(form, answer) {
  const used = new Map(answer.assumptions.map((text) => text.split(" = ")).filter((pair) => pair.length === 2));
  for (const control of form.elements) {
    if (!control.dataset.kind) continue;
    const text = used.get(control.name);
    control.classList.toggle("is-default", control.value === "");
    if (control.tagName === "SELECT") {
      control.options[0].text = control.options[0].value === "" && text ? `${shown(text)} (default)` : control.options[0].value || "default";
      // A long word is cut in a narrow column.
      control.title = control.selectedOptions[0]?.text ?? "";
    } else control.placeholder = text ?? "";
  }
}

function shown(text) {
  return { True: "on", False: "off", true: "on", false: "off" }[text] ?? text;
}
