// The error of the estimator by class of runs and quantity, before and after what was learnt.
import { axis, css, tooltip } from "../charts.js";
import { h } from "../dom.js";
import { count, percent, signedPercent, words } from "../format.js";
import { dataTable } from "../tables.js";

const BEFORE = "#8a8f98";
const LEAST = 1e-5;
const labelRoom = () => (window.innerWidth < 640 ? 120 : 340);

/** "training, allocated" and the like. */
export function className({ kind, quantity, gpu = null }) {
  return `${words(kind)}, ${quantity.replaceAll("_", " ")}${gpu === null ? "" : `, ${gpu}`}`;
}

/** Return the classes as a table; `level` is the share that an interval should hold. */
export function classTable(classes, level) {
  const pair = (of) => (one) => [h("span", { class: "muted" }, of(one.before)), " → ", of(one.after)];
  const coverage = (found, one) => {
    if (found.coverage === null) return "–";
    return h("span", { class: `tag ${isShort(found.coverage, one.count, level) ? "is-bad" : "is-good"}` }, percent(found.coverage, 0));
  };
  return dataTable({
    caption: "Before → after what was learnt; after is honest: each measurement is held against an answer that rests on all others but not on it",
    columns: [
      { label: "Class", head: true, cell: (one) => h("a", { href: listOf(one) }, className(one)) },
      { label: "Measurements", number: true, cell: (one) => count(one.count) },
      { label: "Median error", number: true, cell: pair((found) => percent(found.median, 2)) },
      { label: "95th percentile", number: true, cell: pair((found) => percent(found.p95, 2)) },
      { label: "Bias", number: true, title: "Mean of the signed errors", cell: pair((found) => signedPercent(found.bias, 2)) },
      { label: "Coverage before", number: true, title: "Share of measurements within their 95 % interval", cell: (one) => coverage(one.before, one) },
      { label: "Coverage after", number: true, cell: (one) => coverage(one.after, one) },
      { label: "Width", number: true, title: "Mean width of the intervals over what was measured", cell: pair((found) => percent(found.width, 1)) },
    ],
    items: classes,
  });
}

/** Median and 95th percentile of each class before and after, on one logarithmic axis: two marks and a line between them. */
export function errorOption(classes) {
  const place = (share) => Math.max(share, LEAST) * 100;
  const marks = (name, when, quantile, symbol, colour) => ({
    type: "scatter",
    name,
    symbol,
    symbolSize: 11,
    itemStyle: when === "before" ? { color: "transparent", borderColor: colour, borderWidth: 2 } : { color: colour, borderColor: css("--surface"), borderWidth: 1 },
    data: classes.map((one, index) => [place(one[when][quantile]), index]),
    z: 3,
  });
  return {
    grid: { left: labelRoom(), right: 24, top: 34, bottom: 44 },
    legend: { top: 0, left: 0, textStyle: { color: css("--muted") }, itemWidth: 12, itemHeight: 12 },
    tooltip: tooltip({ formatter: ({ data }) => (data ? classWords(classes[data[1]]) : "") }),
    xAxis: axis({ type: "log", min: LEAST * 10, name: "Error", nameLocation: "middle", nameGap: 28, axisLabel: { color: css("--muted"), formatter: (value) => `${value} %`, hideOverlap: true } }),
    yAxis: axis({ type: "category", inverse: true, data: classes.map(className), axisLabel: { color: css("--text"), width: labelRoom() - 16, overflow: "truncate" }, splitLine: { show: true, lineStyle: { color: css("--line") } } }),
    series: [
      span(classes, "before", place, BEFORE, -4),
      span(classes, "after", place, css("--accent"), 4),
      marks("median before", "before", "median", "circle", BEFORE),
      marks("95th percentile before", "before", "p95", "diamond", BEFORE),
      marks("median after", "after", "median", "circle", css("--accent")),
      marks("95th percentile after", "after", "p95", "diamond", css("--accent")),
    ],
  };
}

export function errorTable(classes) {
  return {
    caption: "Errors by class, before and after what was learnt",
    columns: ["Class", "Measurements", "Median before", "Median after", "95th percentile before", "95th percentile after"],
    rows: classes.map((one) => [className(one), one.count, percent(one.before.median, 2), percent(one.after.median, 2), percent(one.before.p95, 2), percent(one.after.p95, 2)]),
  };
}

/** Rows for a spreadsheet. */
export function classRows(classes) {
  const names = ["median", "p95", "bias", "coverage", "width"];
  return {
    columns: ["kind", "quantity", "gpu", "count", ...names.map((name) => `${name}_before`), ...names.map((name) => `${name}_after`)],
    rows: classes.map((one) => [one.kind, one.quantity, one.gpu, one.count, ...names.map((name) => one.before[name]), ...names.map((name) => one.after[name])]),
  };
}

/** The intervals that an answer gets before anything was measured here. */
export function shippedTable(shipped) {
  return dataTable({
    caption: "The interval of an analytic answer: how far below and above it a reading may lie",
    columns: [
      { label: "Class", head: true, cell: className },
      { label: "Lowest", number: true, cell: (one) => signedPercent(one.low - 1, 2) },
      { label: "Highest", number: true, cell: (one) => signedPercent(one.high - 1, 2) },
    ],
    items: shipped,
  });
}

/** Fewer held than the level promises, by more than half a measurement of these few. */
function isShort(coverage, number, level) {
  return coverage * number < Math.floor(level * number);
}

function listOf({ quantity }) {
  return `/measurements?quantity=${quantity}&sort=-error`;
}

function classWords(one) {
  return `${className(one)}: ${count(one.count)} measurements\nbefore: median ${percent(one.before.median, 2)}, 95th percentile ${percent(one.before.p95, 2)}\nafter: median ${percent(one.after.median, 2)}, 95th percentile ${percent(one.after.p95, 2)}`;
}

function span(classes, when, place, colour, shift) {
  return {
    type: "custom",
    silent: true,
    data: classes.map((one, index) => [place(one[when].median), place(one[when].p95), index]),
    encode: { x: [0, 1], y: 2 },
    renderItem: (_, api) => {
      const [left, y] = api.coord([api.value(0), api.value(2)]);
      const [right] = api.coord([api.value(1), api.value(2)]);
      return { type: "line", shape: { x1: left, y1: y + shift / 8, x2: right, y2: y + shift / 8 }, style: { stroke: colour, lineWidth: 2, opacity: 0.6 } };
    },
    z: 2,
  };
}
