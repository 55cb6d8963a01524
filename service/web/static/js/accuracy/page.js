// The page of accuracy: how far answers were from what was measured here, and what was learnt from it.
import { ask, latest } from "../api.js";
import { makeChart } from "../charts.js";
import { byId, fill, h } from "../dom.js";
import { exportBar, markdownTable } from "../export.js";
import { count, percent } from "../format.js";
import { showProblem } from "../notice.js";
import { clearRefusal, showRefusal } from "../refusals.js";
import { fillForm, fillView, formState, onNavigate, readQuery, writeQuery } from "../state.js";
import { suggest } from "../suggestions.js";
import { figure } from "../tables.js";
import { makeCalibrations, poolTable } from "./calibrations.js";
import { className, classRows, classTable, errorOption, errorTable, shippedTable } from "./classes.js";

const ROW_HEIGHT = 38;
const form = byId("filter");
const page = { answer: null };
const read = latest((signal, query) => ask(`/v1/accuracy?${query}`, { signal }));
const chart = makeChart(byId("errors"), { label: "Errors by class, before and after what was learnt", option: errorOption, table: errorTable });
const calibrations = makeCalibrations(byId("calibration-list"), { only: () => formState(byId("which")).holds ?? "" });

async function show() {
  clearRefusal(form, byId("trouble"));
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(formState(form))) query.set(name, name === "since" ? `${value}T00:00:00Z` : value);
  try {
    const answer = await read(query);
    if (answer === undefined) return;
    page.answer = answer;
    draw(answer);
  } catch (error) {
    showRefusal(form, byId("trouble"), error, (field) => form.elements.namedItem(field));
  }
}

function draw({ level, classes, shipped }) {
  fill(byId("figures"), figures(level, classes));
  fill(byId("classes"), classes.length === 0 ? nothing() : classTable(classes, level));
  byId("errors-panel").hidden = classes.length === 0;
  if (classes.length > 0) chart.show(classes, { height: 90 + ROW_HEIGHT * classes.length });
  fill(byId("shipped"), shippedTable(shipped));
  // Whoever has measured nothing yet sees what answers rest on.
  if (classes.length === 0) byId("shipped-panel").open = true;
}

function figures(level, classes) {
  const sum = (of) => classes.reduce((total, one) => total + of(one), 0);
  const number = sum((one) => one.count);
  if (number === 0) return null;
  const covered = (when) => {
    const known = classes.filter((one) => one[when].coverage !== null);
    const all = known.reduce((total, one) => total + one.count, 0);
    return all === 0 ? null : known.reduce((total, one) => total + one[when].coverage * one.count, 0) / all;
  };
  const weighted = (when) => sum((one) => one[when].median * one.count) / number;
  return [
    figure("Readings beside an answer", count(number), `${count(classes.length)} classes`),
    figure("Median error", percent(weighted("after"), 2), `${percent(weighted("before"), 2)} before learning`),
    figure("Within the interval", percent(covered("after"), 0), `${percent(level, 0)} is promised; ${percent(covered("before"), 0)} before`),
    figure("Worst class", percent(Math.max(...classes.map((one) => one.after.p95)), 2), "95th percentile"),
  ];
}

function nothing() {
  const isFiltered = Object.keys(formState(form)).length > 0;
  if (isFiltered) return h("p", { class: "empty" }, "Nothing that was measured is like this.");
  return h(
    "div",
    { class: "empty-panel" },
    h("h3", {}, "No answer was held against a measurement yet"),
    h("p", {}, "Intervals below are those that are shipped. A measurement of your own makes them yours:"),
    h("pre", { class: "code", tabindex: "0" }, "headroom measure llama-3.2-1b --task train --sequence-length 512 --device trace"),
  );
}

function tools() {
  const columns = ["class", "measurements", "median error", "95th percentile", "coverage"];
  const cells = (one) => [className(one), one.count, `${percent(one.before.median, 2)} → ${percent(one.after.median, 2)}`, `${percent(one.before.p95, 2)} → ${percent(one.after.p95, 2)}`, percent(one.after.coverage, 0)];
  return exportBar({
    name: "accuracy",
    csv: () => classRows(page.answer.classes),
    json: () => ({ ...page.answer, calibrations: calibrations.items }),
    png: () => chart.png(),
    markdown: () => `${markdownTable(columns, page.answer.classes.map(cells))}\n\n${location.href}\n`,
  });
}

async function showPools() {
  try {
    const { items } = await ask("/v1/calibrations/pools");
    fill(byId("pools"), items.length === 0 ? h("p", { class: "empty" }, "Keys have nothing in common yet.") : poolTable(items));
  } catch (error) {
    showProblem(byId("pools"), error);
  }
}

const changed = () => {
  writeQuery({ ...formState(form), ...formState(byId("which")) }, { push: true });
  return show();
};
const fromAddress = (state) => {
  fillForm(form, state);
  // A word that is not offered asks for nothing else than no word; the box says which is shown.
  fillView(byId("which"), state);
};
fromAddress(readQuery());
fill(byId("tools"), tools());
form.addEventListener("change", changed);
form.addEventListener("submit", (event) => (event.preventDefault(), changed()));
byId("which").addEventListener("change", () => {
  writeQuery({ ...formState(form), ...formState(byId("which")) }, { push: true });
  calibrations.draw();
});
onNavigate((state) => {
  fromAddress(state);
  show();
  calibrations.draw();
});
show();
calibrations.more();
showPools();
suggest();
