// Answers side by side: those that were kept, and the one that is asked now.
import { ask, Problem } from "../api.js";
import { componentColour } from "../charts.js";
import { byId, fill, h, say } from "../dom.js";
import { exportBar, markdownTable } from "../export.js";
import { count, gib, seconds, sentence, short, signedPercent, words } from "../format.js";
import { verdictTag } from "./notes.js";
import { gpuName, modelName, needs } from "./verdict.js";

const MOST = 6;
const NOW = "Now";
const WORDS = { model: modelName, gpu: (question) => gpuName(question).replace(/^a /, "") };
// What answers are compared by: how it is written, and the number itself.
const FIGURES = [
  ["Needs per GPU", gib, (answer) => needs(answer).needed],
  ["Usable per GPU", gib, (answer) => needs(answer).available],
  ["To spare", gib, (answer) => needs(answer).available - needs(answer).needed],
  ["GPUs", count, (answer) => answer.num_gpus],
  ["Cache for one token", gib, (answer) => answer.serving?.kv_bytes_per_token],
  ["Sequences at most", count, (answer) => answer.serving?.max_num_sequences],
  ["Prefill", seconds, (answer) => answer.throughput?.prefill_time_s],
  ["Step", seconds, (answer) => answer.throughput?.step_time_s],
  ["Tokens per second", short, (answer) => answer.throughput?.tokens_per_second],
  ["Tokens per second and GPU", short, (answer) => answer.throughput?.tokens_per_second_per_gpu],
];

/**
 * Return the panel: `kept()` are its questions, `restore(questions)` takes those of a link, `look()` asks what of them has no
 * answer yet, `showNow(question, answer)` is the column of the form. `onShow(question)` makes one the form's, `onChange()` is
 * called when one comes or goes.
 */
export function comparePanel({ onShow, onChange }) {
  const state = { kept: [], now: null };
  const button = byId("keep");
  const keep = () => {
    if (placeOf(state) >= 0) return;
    state.kept.push({ ...state.now });
    changed(`Kept as ${state.kept.length}`);
  };
  const drop = (place) => {
    state.kept.splice(place, 1);
    changed("Dropped");
    button.focus();
  };
  const draw = () => {
    const place = placeOf(state);
    button.textContent = place < 0 ? "Keep this answer" : `Kept as ${place + 1}`;
    // What is kept stays in reach of the keyboard, which has just pressed it.
    button.setAttribute("aria-disabled", String(place >= 0));
    button.disabled = state.now === null || (place < 0 && state.kept.length >= MOST);
    const isEmpty = state.kept.length === 0;
    byId("compare-note").hidden = !isEmpty;
    fill(byId("compare"), !isEmpty && tableElement(columnsOf(state), { onShow, onDrop: drop }));
    fill(byId("compare-export"), !isEmpty && exports(state));
  };
  const changed = (text) => (draw(), say(text), onChange());
  button.addEventListener("click", keep);
  draw();
  return {
    kept: () => state.kept.map((one) => one.question),
    restore(questions) {
      const known = new Map(state.kept.map((one) => [JSON.stringify(one.question), one]));
      state.kept = questions.slice(0, MOST).map((question) => known.get(JSON.stringify(question)) ?? { question, answer: null, problem: null });
      draw();
    },
    async look(signal) {
      for (const one of state.kept.filter((each) => each.answer === null)) {
        await answerOf(one, signal);
        if (signal.aborted) return;
        draw();
      }
    },
    showNow(question, answer) {
      state.now = { question, answer, problem: null };
      draw();
    },
  };
}

async function answerOf(one, signal) {
  try {
    one.answer = await ask("/v1/fit", { method: "POST", body: { ...one.question, remedies: false }, signal });
    one.problem = null;
  } catch (error) {
    if (signal.aborted) return;
    if (!(error instanceof Problem)) throw error;
    one.problem = error.message;
  }
}

function isSame(one, other) {
  return JSON.stringify(one.question) === JSON.stringify(other.question);
}

/** Where the form's question is kept, or -1. */
function placeOf({ kept, now }) {
  return now === null ? -1 : kept.findIndex((one) => isSame(one, now));
}

/** The kept ones by number, and the form's where it is another question. */
function columnsOf({ kept, now }) {
  const columns = kept.map((one, place) => ({ ...one, name: String(place + 1), place }));
  return now === null || placeOf({ kept, now }) >= 0 ? columns : [...columns, { ...now, name: NOW, place: null }];
}

/** The rows of the table, `{ name, cells: [{ text, note }], colour }`: in what they differ, what comes of it, and the bytes of each part. */
export function rowsOf(columns) {
  return [...differences(columns), ...figures(columns), ...components(columns)];
}

function differences(columns) {
  const flat = columns.map(({ question }) => ({ ...flattened(question), ...Object.fromEntries(Object.entries(WORDS).map(([name, say]) => [name, say(question)])) }));
  const names = [...new Set(flat.flatMap(Object.keys))];
  const isOther = (name) => new Set(flat.map((one) => one[name])).size > 1;
  return names.filter(isOther).map((name) => ({ name: words(name.replace(/^(workload|layout)\./, "").replaceAll(".", "_")), cells: flat.map((one) => ({ text: one[name] ?? "default" })) }));
}

function figures(columns) {
  return FIGURES.map(([name, text, of]) => ({ name, cells: numbers(columns, of, text) })).filter(({ cells }) => cells.some(({ text }) => text !== ""));
}

function components(columns) {
  const bytes = (answer, name) => answer.per_gpu.components.find((part) => part.name === name)?.bytes ?? 0;
  const names = new Set(columns.flatMap(({ answer }) => answer?.per_gpu.components.map((part) => part.name) ?? []));
  return [...names].map((name) => ({ name: words(name), colour: componentColour(name), cells: numbers(columns, (answer) => bytes(answer, name), gib) }));
}

/** Numbers of all columns; each after the first says how far it is from that. */
function numbers(columns, of, text) {
  const values = columns.map(({ answer }) => (answer === null ? null : (of(answer) ?? null)));
  const [first] = values;
  return values.map((value, place) => {
    const isOther = place > 0 && value !== null && first > 0 && value !== first;
    return { text: value === null ? "" : text(value), note: isOther ? signedPercent(value / first - 1, 0) : "" };
  });
}

function flattened(value, prefix = "") {
  const found = {};
  for (const [name, one] of Object.entries(value)) {
    const path = `${prefix}${name}`;
    if (one !== null && typeof one === "object" && !Array.isArray(one) && path !== "model") Object.assign(found, flattened(one, `${path}.`));
    else found[path] = Array.isArray(one) ? one.join(", ") : String(one);
  }
  return found;
}

function tableElement(columns, { onShow, onDrop }) {
  const heading = (column) =>
    h(
      "th",
      { scope: "col" },
      column.name,
      column.place !== null && h("div", { class: "row" }, h("button", { type: "button", class: "quiet", "aria-label": `Show ${column.name}`, onclick: () => onShow(column.question) }, "Show"), h("button", { type: "button", class: "quiet", "aria-label": `Drop ${column.name}`, onclick: () => onDrop(column.place) }, "Drop")),
    );
  const row = ({ name, cells, colour }) => h("tr", {}, h("th", { scope: "row" }, colour && swatch(colour), name), cells.map(({ text, note }) => h("td", {}, text, note && h("small", { class: "muted" }, ` ${note}`))));
  const verdict = ({ answer, problem }) => (answer !== null ? verdictTag(answer.verdict) : problem === null ? "…" : h("span", { class: "why" }, sentence(problem)));
  return h(
    "table",
    { class: "data compare" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, h("span", { class: "unseen" }, "What")), columns.map(heading))),
    h("tbody", {}, h("tr", {}, h("th", { scope: "row" }, "Verdict"), columns.map((column) => h("td", {}, verdict(column)))), rowsOf(columns).map(row)),
  );
}

function swatch(colour) {
  const element = h("span", { class: "swatch", "aria-hidden": "true" });
  element.style.backgroundColor = colour;
  return element;
}

function exports(state) {
  const table = () => {
    const columns = columnsOf(state);
    const verdicts = ["Verdict", ...columns.map(({ answer, problem }) => answer?.verdict ?? problem ?? "")];
    return { columns: ["", ...columns.map(({ name }) => name)], rows: [verdicts, ...rowsOf(columns).map(({ name, cells }) => [name, ...cells.map(({ text }) => text)])] };
  };
  return exportBar({
    name: "headroom-comparison",
    csv: table,
    json: () => columnsOf(state).map(({ name, question, answer }) => ({ name, question, answer })),
    markdown: () => [markdownTable(table().columns, table().rows), "", location.href].join("\n"),
  });
}
