// The heat map: the same question across one number and many GPUs, in one call.
import { ask, latest, Problem } from "../api.js";
import { axis, css, makeChart, tooltip, VERDICT_COLOURS } from "../charts.js";
import { byId, fill, h } from "../dom.js";
import { exportBar, markdownTable } from "../export.js";
import { gib, percent, words } from "../format.js";
import { showProblem } from "../notice.js";
import { needs } from "./verdict.js";

// Okabe and Ito's orange: the page's own is made for text and too dark to fill with.
const TIGHT = "#e69f00";
// A map is sent anew after every change: beyond this it would wait for the way there. A config of 50 kB has its map.
const MOST_BYTES = 4 * 2 ** 20;
const ROW = 30;
const FRAME = 70;
const NARROW = 34;
// On a phone every pixel beside the cells is theirs.
const PHONE = 480;
const MARK = 7;
const AXES = {
  train: [
    ["micro_batch_size", [1, 2, 4, 8, 16, 32, 64]],
    ["sequence_length", [1024, 2048, 4096, 8192, 16384, 32768, 65536]],
  ],
  serve: [
    ["num_sequences", [1, 4, 16, 64, 128, 256, 512]],
    ["prompt_tokens", [512, 1024, 2048, 4096, 8192, 16384, 32768]],
  ],
};
const WELL_KNOWN = [
  ...["T4", "L4", "A10G", "RTX-4090", "A100-SXM4-40GB", "L40S", "A100-SXM4-80GB", "H100-SXM5-80GB", "H200-SXM5-141GB"],
  ...["B200-SXM6-180GB", "MI300X-192GB"],
];

/** Return `show(question)` and `stop()` of the map; `onPick(gpu, field, value)` is called when a cell is taken. */
export function fitMap({ known, onPick, onChange }) {
  const form = byId("map-form");
  const chart = makeChart(byId("map"), { label: "How full each GPU would be; the table below has the numbers", option, table: mapTable });
  let found = null;
  const ask_ = latest((signal, questions) => ask("/v1/fit/batch", { method: "POST", body: { items: questions, detail: "numbers" }, signal }));

  const show = async (question) => {
    offerAxes(form, question.workload.task);
    const grid = gridOf(question, known.gpus, form.elements.map.value === "all", form.elements.axis.value);
    try {
      refuseTooMuch(question, grid.cells.length);
      const answer = await ask_(grid.cells.map((cell) => cell.question));
      if (answer === undefined) return;
      showProblem(byId("map-problem"), null);
      found = { ...grid, cells: grid.cells.map((cell, place) => ({ ...cell, ...outcome(answer.items[place]) })) };
      chart.show(found, { height: found.gpus.length * ROW + FRAME });
      byId("map").hidden = false;
    } catch (error) {
      byId("map").hidden = true;
      showProblem(byId("map-problem"), error);
    }
  };
  chart.on("click", ({ data }) => data && onPick(found.cells[data[3]].gpu, found.field, found.cells[data[3]].value));
  form.addEventListener("change", onChange);
  fill(byId("map-export"), exportBar({ name: "headroom-map", csv: () => mapTable(found), json: () => found.cells, png: chart.png, markdown: () => mapMarkdown(found) }));
  return { show, stop: ask_.stop };
}

/** Each cell is a question of its own, with all of a pasted config in it. */
function refuseTooMuch(question, number) {
  if (JSON.stringify(question).length * number < MOST_BYTES) return;
  throw new Problem({ status: 0, title: "The config is too long for the map", detail: `it would be sent ${number} times, once for each cell; store the model under a name, below the config, and the map asks by that` });
}

/** The map as a table: a row per GPU, what share of it is taken, and in words where it is too much. */
export function mapTable({ gpus, values, field, cells }) {
  return {
    caption: `Share of the memory that is needed, by GPU and ${words(field).toLowerCase()}`,
    columns: ["gpu", ...values.map(String)],
    rows: gpus.map((gpu, row) => [gpu, ...values.map((_, column) => cellWords(cells[row * values.length + column]))]),
  };
}

function mapMarkdown(found) {
  const { columns, rows } = mapTable(found);
  return [`**${words(found.field)}**, share of memory needed`, "", markdownTable(columns, rows), "", location.href].join("\n");
}

function offerAxes(form, task) {
  const select = form.elements.axis;
  const wanted = AXES[task].map(([field]) => field);
  if ([...select.options].map((each) => each.value).join() === wanted.join()) return;
  const kept = select.dataset.wanted ?? select.value;
  fill(select, wanted.map((field) => h("option", { value: field }, words(field).toLowerCase())));
  select.value = wanted.includes(kept) ? kept : wanted[0];
  delete select.dataset.wanted;
}

function gridOf(question, known, isAll, field) {
  const names = new Set(known.map((gpu) => gpu.name));
  const asked = typeof question.gpu === "string" && names.has(question.gpu) ? [question.gpu] : [];
  const chosen = isAll ? known.map((gpu) => gpu.name) : [...new Set([...WELL_KNOWN.filter((name) => names.has(name)), ...asked])];
  const memory = new Map(known.map((gpu) => [gpu.name, gpu.usable_bytes]));
  const gpus = chosen.sort((left, right) => memory.get(left) - memory.get(right));
  const values = valuesOf(question, field);
  const cells = gpus.flatMap((gpu) =>
    values.map((value) => ({ gpu, value, isAsked: gpu === question.gpu && value === (question.workload[field] ?? 1), question: { ...question, gpu, workload: { ...question.workload, [field]: value } } })),
  );
  return { gpus, values, field, cells };
}

/** The usual numbers, and the one that is asked. */
function valuesOf(question, field) {
  const usual = AXES[question.workload.task].find(([name]) => name === field)[1];
  const asked = question.workload[field];
  return Number.isInteger(asked) && asked > 0 ? [...new Set([...usual, asked])].sort((left, right) => left - right) : usual;
}

function outcome(item) {
  if (item.problem !== undefined) return { verdict: null, why: item.problem.detail };
  const { needed, available } = needs(item);
  return { verdict: item.verdict, needed, available, share: needed / available, why: item.warnings[0] ?? "" };
}

function cellWords(cell) {
  if (cell.verdict === null) return "not answered";
  return `${percent(cell.share, 0)}${{ fits: "", tight: " (tight)", does_not_fit: " (does not fit)" }[cell.verdict]}`;
}

function option(found) {
  const { gpus, values, field, cells } = found;
  const isPhone = byId("map").clientWidth < PHONE;
  const data = cells.map((cell, place) => [place % values.length, Math.floor(place / values.length), cell.share ?? 0, place]);
  return {
    grid: { left: 8, right: isPhone ? 2 : 8, top: 8, bottom: 30, containLabel: true },
    xAxis: axis({ type: "category", data: values.map((value) => value.toLocaleString("en-US")), name: words(field), nameLocation: "middle", nameGap: 28, splitLine: { show: false } }),
    yAxis: axis({ type: "category", data: gpus, inverse: true, splitLine: { show: false }, axisLabel: { color: css("--text"), fontSize: isPhone ? 10 : 12, margin: isPhone ? 4 : 8 } }),
    tooltip: tooltip({ formatter: ({ data: [, , , place] }) => tooltipOf(cells[place], field) }),
    series: [{ type: "custom", data, encode: { x: 0, y: 1 }, renderItem: (_parameters, api) => cellShape(cells[api.value(3)], api) }],
  };
}

/** A cell says its share, in a colour of its verdict that is deeper the fuller it is; what does not fit has a dark corner besides. */
function cellShape(cell, api) {
  const [x, y] = api.coord([api.value(0), api.value(1)]);
  const [width, height] = api.size([1, 1]);
  const shape = { x: x - width / 2 + 1, y: y - height / 2 + 1, width: width - 2, height: height - 2, r: 3 };
  const colour = cell.verdict === null ? css("--line-strong") : cell.verdict === "tight" ? TIGHT : css(VERDICT_COLOURS[cell.verdict]);
  const opacity = cell.verdict === "fits" ? 0.1 + 0.28 * cell.share : cell.verdict === "tight" ? 0.45 : 0.16;
  return {
    type: "group",
    children: [
      { type: "rect", shape, style: { fill: colour, opacity } },
      ...(cell.isAsked ? [{ type: "rect", shape, style: { fill: "none", stroke: css("--text"), lineWidth: 2 } }] : []),
      { type: "text", style: { x, y, text: cellText(cell, width < NARROW), align: "center", verticalAlign: "middle", fill: css("--text"), fontSize: width < 44 ? 10 : 12, fontWeight: cell.verdict === "fits" ? 600 : 400 } },
      ...(cell.verdict === "does_not_fit" ? [{ type: "polygon", shape: { points: corner(shape) }, style: { fill: colour } }] : []),
    ],
  };
}

function corner({ x, y, width }) {
  return [[x + width - MARK, y], [x + width, y], [x + width, y + MARK]];
}

/** How full it is, in a narrow cell without the sign; an engine that does not start although it has the bytes is told by a word. */
function cellText(cell, isNarrow) {
  if (cell.verdict === null) return "?";
  if (cell.verdict === "does_not_fit" && cell.share <= 1) return "no";
  if (cell.share >= 10) return `${cell.share.toFixed(0)}×`;
  return isNarrow ? (cell.share * 100).toFixed(0) : percent(cell.share, 0).replace(" ", "\u202f");
}

function tooltipOf(cell, field) {
  const head = `${cell.gpu}, ${words(field).toLowerCase()} ${cell.value.toLocaleString("en-US")}`;
  const said = cell.verdict === null ? "" : `${gib(cell.needed)} of ${gib(cell.available)}: ${cell.verdict.replaceAll("_", " ")}`;
  return [head, said, cell.verdict === "fits" ? "" : folded(cell.why)].filter(Boolean).join("\n");
}

/** A sentence in lines that a tooltip has room for. */
function folded(text) {
  return text.replace(/(.{40,60}?)\s/g, "$1\n");
}
