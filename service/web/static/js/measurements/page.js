// The page of measurements: what runs now, a filtered table, and how predictions held against what was measured.
import { ask, askAll, latest } from "../api.js";
import { makeChart } from "../charts.js";
import { byId, fill, h } from "../dom.js";
import { exportBar, markdownTable } from "../export.js";
import { count, signedPercent } from "../format.js";
import { showProblem } from "../notice.js";
import { repeat } from "../polling.js";
import { clearRefusal, showRefusal } from "../refusals.js";
import { fillForm, fillView, formState, onNavigate, readQuery, writeQuery } from "../state.js";
import { suggest } from "../suggestions.js";
import { makeAsking } from "./ask.js";
import { bestReading, QUANTITIES, rowWords } from "./quantities.js";
import { watchRunning } from "./running.js";
import { scatterData, scatterOption, scatterTable, scatterWords } from "./scatter.js";
import { measurementTable } from "./table.js";
import { showWorkers } from "./workers.js";

const PAGE = 25;
const DRAWN = 2000;
const WORKERS_MS = 15_000;
const TABLE_MS = 20_000;
const HOUR_MS = 3_600_000;
const RANGE = "last";
const VIEW = ["quantity", "answer", "plot"];
const form = byId("filter");
const page = { rows: [], drawn: [], cursors: [null], next: null, workers: [], unknown: [] };

const readPage = latest((signal, query) => ask(`/v1/measurements?${query}`, { signal }));
const readDrawn = latest((signal, query) => askAll(`/v1/measurements?${query}`, { signal, most: DRAWN }));

/** Return the API's query for a state of the form. */
function queryOf(state, more = {}) {
  const query = new URLSearchParams({ format: "rows", ...more });
  for (const [name, value] of Object.entries(state)) {
    if (VIEW.includes(name)) continue;
    if (name !== RANGE) query.set(name, name.startsWith("created_") ? `${value}T00:00:00Z` : value);
  }
  // The last hours are told from now on; a day that is named as well counts where it is later.
  const since = state[RANGE] && new Date(Date.now() - Number(state[RANGE]) * HOUR_MS).toISOString();
  if (since && !(query.get("created_after") > since)) query.set("created_after", since);
  return query;
}

async function showTable() {
  const cursor = page.cursors.at(-1);
  const found = await readPage(queryOf(formState(form), { limit: PAGE, ...(cursor === null ? {} : { cursor }) }));
  if (found === undefined) return;
  Object.assign(page, { rows: found.items, next: found.next_cursor });
  const first = (page.cursors.length - 1) * PAGE;
  const caption = found.items.length === 0 ? "" : `Measurements ${count(first + 1)} to ${count(first + found.items.length)}`;
  fill(byId("table"), found.items.length === 0 ? nothing() : measurementTable(found.items, caption), pager());
}

async function showScatter() {
  const state = formState(form);
  const rows = await readDrawn(queryOf(state));
  if (rows === undefined) return;
  page.drawn = rows;
  draw();
}

function draw() {
  const view = formState(byId("view"));
  const data = scatterData(page.drawn, view);
  const cut = page.drawn.length >= DRAWN ? ` Of the first ${count(DRAWN)} measurements that are like this.` : "";
  const unknown = page.unknown.map(([name, value]) => ` There is no ${name} “${value}”: this is ${view[name].replaceAll("_", " ")}.`).join("");
  byId("scatter-words").textContent = scatterWords(data) + cut + unknown;
  byId("scatter").hidden = data.points.length === 0;
  if (data.points.length > 0) chart.show(data);
}

const show = async () => {
  clearRefusal(form, byId("trouble"));
  const results = await Promise.allSettled([showTable(), showScatter()]);
  const failed = results.find((one) => one.status === "rejected");
  if (failed !== undefined) showRefusal(form, byId("trouble"), failed.reason, (field) => form.elements.namedItem(field));
  return failed === undefined;
};

function changed({ push = false } = {}) {
  page.cursors = [null];
  writeQuery({ ...formState(form), ...shortView() }, { push });
  return show();
}

/** What of the view is no default: the address stays short. */
function shortView() {
  return Object.fromEntries(Object.entries(formState(byId("view"))).filter(([name, value]) => value !== { quantity: "allocated", answer: "predicted", plot: "scatter" }[name]));
}

function pager() {
  const step = (cursors) => {
    page.cursors = cursors;
    return show().then(() => byId("table").focus());
  };
  if (page.cursors.length === 1 && page.next === null) return null;
  return h(
    "nav",
    { class: "row pager", "aria-label": "Pages of measurements" },
    h("button", { type: "button", disabled: page.cursors.length === 1, onclick: () => step(page.cursors.slice(0, -1)) }, "Previous"),
    h("button", { type: "button", disabled: page.next === null, onclick: () => step([...page.cursors, page.next]) }, "Next"),
  );
}

function nothing() {
  const isFiltered = Object.keys(formState(form)).some((name) => name !== "sort");
  if (isFiltered) return h("p", { class: "empty" }, "No measurement is like this. ", h("button", { type: "button", class: "quiet", onclick: reset }, "Show all"));
  return h(
    "div",
    { class: "empty-panel" },
    h("h3", {}, "Nothing was measured yet"),
    h("p", {}, "Ask for one above, or from a shell; a trace needs no GPU:"),
    h("pre", { class: "code", tabindex: "0" }, "headroom measure llama-3.2-1b --task train --sequence-length 512 --device trace"),
    h("p", {}, "What your scheduler, Prometheus or a log has seen counts as well:"),
    h("pre", { class: "code", tabindex: "0" }, "headroom measurements import sacct.txt --model llama-3.2-1b --task train --sequence-length 2048 --gpu A100-SXM4-80GB"),
  );
}

/** Read the table again and again once it was shown; whoever reads on, or pages, is left alone. */
function keepFresh(isShown) {
  const look = async () => page.cursors.length === 1 && !byId("table").contains(document.activeElement) && (await showTable());
  if (isShown) setTimeout(repeat, TABLE_MS, look, TABLE_MS, (error) => showProblem(byId("trouble"), error), () => showProblem(byId("trouble"), null));
}

function fromAddress(state) {
  fillForm(form, state);
  page.unknown = fillView(byId("view"), state);
}

function reset() {
  fillForm(form, {});
  return changed({ push: true });
}

async function showAllWorkers() {
  page.workers = await askAll("/v1/workers");
  const element = byId("workers");
  if (!element.contains(document.activeElement)) showWorkers(element, page.workers);
  askWords();
}

function tools() {
  const columns = ["measurement", "model", "what ran", "GPU", "measured", "predicted", "error"];
  const cells = (row) => {
    const best = bestReading(row, "predicted");
    const shown = best === null ? ["", "", ""] : [QUANTITIES[best.name].show(best.measured), QUANTITIES[best.name].show(best.predicted), signedPercent(best.error, 2)];
    return [`[${row.id.slice(0, 8)}](${location.origin}/measurements/${row.id})`, row.model ?? "", rowWords(row), row.gpu ?? "", ...shown];
  };
  const whole = () => Object.keys(page.drawn[0] ?? page.rows[0] ?? { id: "" });
  return exportBar({
    name: "measurements",
    csv: () => ({ columns: whole(), rows: page.drawn.map((row) => whole().map((name) => row[name])) }),
    json: () => page.drawn,
    png: () => chart.png(),
    markdown: () => `${markdownTable(columns, page.rows.map(cells))}\n\n${byId("scatter-words").textContent}\n\n${location.href}\n`,
  });
}

const chart = makeChart(byId("scatter"), { label: "Predicted against measured", option: scatterOption, table: scatterTable, height: 400 });
chart.on("click", ({ data }) => data?.one && location.assign(`/measurements/${data.one.row.id}`));
fromAddress(readQuery());
fill(byId("tools"), tools());
form.addEventListener("change", () => changed({ push: true }));
form.addEventListener("submit", (event) => (event.preventDefault(), changed({ push: true })));
byId("reset").addEventListener("click", reset);
byId("view").addEventListener("change", () => {
  page.unknown = [];
  writeQuery({ ...formState(form), ...shortView() }, { push: true });
  draw();
});
onNavigate((state) => {
  fromAddress(state);
  page.cursors = [null];
  show();
});
const askWords = makeAsking(byId("ask"), { workers: () => page.workers });
show().then(keepFresh);
watchRunning(byId("running"), { onOver: show });
repeat(showAllWorkers, WORKERS_MS, (error) => showProblem(byId("workers"), error));
suggest();
