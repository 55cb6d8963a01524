// The stacked bar per instant, and the table of what it is made of, which is its legend as well.
import { axis, componentColour, css, makeChart, tooltip } from "../charts.js";
import { fill, h } from "../dom.js";
import { exact, gib, partPercent, words } from "../format.js";

const GIB = 2 ** 30;
const ROW = 38;
const FRAME = 62;
const LABEL_SIZE = 12.5;
const LABEL_GAP = 16;
const DEVICE = "device";
// The order of an answer's components, so that a colour keeps its place from answer to answer.
const ORDER = [
  ...["weights", "adapters", "master_weights", "gradients", "optimizer_states", "activations", "logits", "kv_cache"],
  ...["recurrent_state", "gathered_weights", "communication_buffers", "temporaries", "cuda_graphs", "sampler_state", "request_table"],
  ...["engine_weights", "engine_kv_cache", "engine_other", "critic_weights", "critic_optimizer_states", "critic_activations", "critic_other", "critic_context"],
  ...["library_workspaces", "allocator_slack", "device_context"],
];

/** Return `show(answer)` and `png()` of the chart in `element`, with its legend in `legend`. */
export function stepChart(element, legend) {
  const chart = makeChart(element, {
    label: "Bytes on the fullest GPU at each instant, by component; the table below has the numbers",
    option,
    table: stepTable,
  });
  return {
    show(answer) {
      chart.show(answer, { height: rowsOf(answer).length * ROW + FRAME });
      fill(legend, componentTable(answer), stageTable(answer.per_gpu));
    },
    png: chart.png,
  };
}

/** Every instant's parts in bytes; the last row is what the whole device holds at the peak. */
export function rowsOf(answer) {
  const { instants, components, device_bytes } = answer.per_gpu;
  const whole = Object.fromEntries(components.map((part) => [part.name, part.bytes]));
  return [
    ...instants.map((instant) => ({ name: instant.name, total: instant.allocated_bytes, parts: instant.parts })),
    { name: DEVICE, total: device_bytes, parts: whole },
  ];
}

/** The names of all components of an answer, in their order. */
export function namesOf(rows) {
  const found = new Set(rows.flatMap((row) => Object.keys(row.parts)));
  const known = ORDER.filter((name) => found.has(name));
  return [...known, ...[...found].filter((name) => !ORDER.includes(name))];
}

/** The chart as a table in bytes, for export and for those who do not see it. */
export function stepTable(answer) {
  const rows = rowsOf(answer);
  const names = namesOf(rows);
  return {
    caption: "Bytes on the fullest GPU",
    columns: ["instant", ...names, "total"],
    rows: rows.map((row) => [row.name, ...names.map((name) => row.parts[name] ?? 0), row.total]),
  };
}

function rowLabel(name) {
  return name === DEVICE ? "On the device" : words(name);
}

function option(answer) {
  const rows = rowsOf(answer).reverse();
  const [, high] = answer.per_gpu.intervals.device;
  const most = Math.max(high, answer.usable_bytes, ...rows.map((row) => row.total)) / GIB;
  return {
    // The width of the names is measured: the chart's own guess clips the longest in some fonts.
    grid: { left: LABEL_GAP + widest(rows.map((row) => rowLabel(row.name))), right: 28, top: 26, bottom: 26 },
    xAxis: axis({ type: "value", max: Math.ceil(most * 1.06), axisLabel: { color: css("--muted"), formatter: "{value} GiB", hideOverlap: true, showMaxLabel: false } }),
    yAxis: axis({ type: "category", data: rows.map((row) => rowLabel(row.name)), splitLine: { show: false }, axisLabel: { color: css("--text"), fontSize: LABEL_SIZE } }),
    tooltip: tooltip({ trigger: "axis", axisPointer: { type: "shadow" }, formatter: (points) => tooltipOf(rows[points[0].dataIndex]) }),
    series: [...namesOf(rows).map((name) => bars(name, rows)), limit(answer, most), whisker(answer, rows)],
  };
}

/** The pixels of the widest of some words beside an axis. */
function widest(texts) {
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = `${LABEL_SIZE}px ${getComputedStyle(document.body).fontFamily}`;
  return Math.ceil(Math.max(...texts.map((text) => pen.measureText(text).width)));
}

function bars(name, rows) {
  return {
    type: "bar",
    name,
    stack: "all",
    barWidth: "62%",
    itemStyle: { color: componentColour(name), borderColor: css("--surface"), borderWidth: 1 },
    emphasis: { disabled: true },
    data: rows.map((row) => (row.parts[name] ?? 0) / GIB),
  };
}

function limit(answer, most) {
  // Near the right edge there is no room for half of the words.
  const align = answer.usable_bytes / GIB / most > 0.8 ? "right" : "center";
  const line = { type: "solid", width: 2, color: css("--text") };
  const label = { formatter: `usable ${gib(answer.usable_bytes)}`, color: css("--text"), fontSize: 12, fontWeight: 600, align, position: "end", distance: 6 };
  return {
    type: "bar",
    stack: "all",
    silent: true,
    data: [],
    markLine: { silent: true, symbol: "none", animation: false, lineStyle: line, label, data: [{ xAxis: answer.usable_bytes / GIB }] },
  };
}

/** The interval of the device's bytes, on the row that shows them. */
function whisker(answer, rows) {
  const [low, high] = answer.per_gpu.intervals.device;
  return {
    type: "custom",
    silent: true,
    z: 10,
    data: [[low / GIB, high / GIB, rows.findIndex((row) => row.name === DEVICE)]],
    encode: { x: [0, 1], y: 2 },
    renderItem: (_parameters, api) => {
      const [from, y] = api.coord([api.value(0), api.value(2)]);
      const [to] = api.coord([api.value(1), api.value(2)]);
      const style = { stroke: css("--text"), lineWidth: 2 };
      const line = (x1, y1, x2, y2) => ({ type: "line", shape: { x1, y1, x2, y2 }, style });
      return { type: "group", children: [line(from, y, to, y), line(from, y - 6, from, y + 6), line(to, y - 6, to, y + 6)] };
    },
  };
}

function tooltipOf(row) {
  const parts = namesOf([row]).map((name) => `${words(name)}: ${gib(row.parts[name])}`);
  return [`${rowLabel(row.name)}: ${gib(row.total)}`, ...parts.reverse()].join("\n");
}

function componentTable(answer) {
  const { components, device_bytes } = answer.per_gpu;
  const known = new Set(components.map((part) => part.name));
  const others = namesOf(rowsOf(answer)).filter((name) => !known.has(name));
  return h(
    "table",
    { class: "data stacks" },
    h("caption", {}, `At the peak, on the device: ${gib(device_bytes)}`),
    h("thead", {}, h("tr", {}, ["Component", "Bytes", "Share", "Known", "How"].map((name, place) => h("th", { scope: "col", class: place === 1 || place === 2 ? "is-number" : null }, name)))),
    h(
      "tbody",
      {},
      components.map((part) =>
        h(
          "tr",
          {},
          h("th", { scope: "row" }, swatch(part.name), words(part.name)),
          h("td", { class: "is-number", title: exact(part.bytes), "data-label": "Bytes" }, gib(part.bytes)),
          h("td", { class: "is-number", "data-label": "Share" }, partPercent(part.bytes / device_bytes)),
          h("td", { "data-label": "Known" }, part.basis),
          h("td", { class: "why", "data-label": "How" }, part.formula, part.source && source(part)),
        ),
      ),
      others.map((name) => h("tr", {}, h("th", { scope: "row" }, swatch(name), words(name)), h("td", { class: "muted", colspan: "4" }, "not alive at the peak"))),
    ),
  );
}

/** Where a formula comes from, for who asks why. */
function source(part) {
  return h("details", { class: "source" }, h("summary", { "aria-label": `Why ${words(part.name).toLowerCase()}: the source` }, "why"), part.source);
}

/** Of a pipeline every stage, since the fullest decides; nothing where there is only one. */
function stageTable({ stages, worst_rank }) {
  if (stages.length < 2) return null;
  const row = (stage) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, stage.pipeline_stage, stage.pipeline_stage === worst_rank.pipeline_stage && h("span", { class: "tag" }, "fullest")),
      h("td", { class: "is-number", title: exact(stage.allocated_bytes) }, gib(stage.allocated_bytes)),
      h("td", { class: "is-number", title: exact(stage.steady_bytes) }, gib(stage.steady_bytes)),
    );
  const head = h("tr", {}, h("th", { scope: "col" }, "Stage"), h("th", { scope: "col", class: "is-number" }, "Allocated peak"), h("th", { scope: "col", class: "is-number" }, "Between steps"));
  return h("table", { class: "data stages" }, h("caption", {}, "Stages of the pipeline"), h("thead", {}, head), h("tbody", {}, stages.map(row)));
}

function swatch(name) {
  const element = h("span", { class: "swatch", "aria-hidden": "true" });
  element.style.backgroundColor = componentColour(name);
  return element;
}
