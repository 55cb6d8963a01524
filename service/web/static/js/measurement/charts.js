// The charts of one measurement: bytes per instant, what filled the peak, and the timeline of the probe.
import { axis, componentColour, css, tooltip } from "../charts.js";
import { gib, percent, seconds, size, words } from "../format.js";

const TICKS = 5;
const KINDS = {
  device_used: ["NVML: whole GPU", "#999933"],
  process_used: ["NVML: process", "#d55e00"],
  reserved: ["torch: reserved", "#e69f00"],
  allocated: ["torch: allocated", "#0072b2"],
  process_rss: ["host: process", "#8a8f98"],
};

/** Return `[{ name, measured, predicted }]`, in the order of a step. */
export function instantsOf({ instants, prediction }) {
  const said = new Map((prediction?.instants ?? []).map((one) => [one.name, one.allocated_bytes]));
  return instants.map((one) => ({ name: one.name, measured: one.allocated_bytes, predicted: said.get(one.name) ?? null }));
}

/** The samples of a probe as rows for a spreadsheet. */
export function sampleRows(samples) {
  return { columns: ["t_s", "kind", "bytes"], rows: samples.map((one) => [one.t_s, one.kind, one.bytes]) };
}

/** Predicted beside measured, bar by bar. */
export function instantsOption(instants) {
  const isPredicted = instants.some((one) => one.predicted !== null);
  const bars = (name, key, colour, extra = {}) => ({
    type: "bar",
    name,
    barMaxWidth: 18,
    barGap: "10%",
    itemStyle: { color: colour, borderRadius: [0, 2, 2, 0], ...extra },
    data: instants.map((one) => one[key]),
  });
  return {
    grid: { left: 110, right: 84, top: 30, bottom: 28 },
    legend: { top: 0, left: 0, textStyle: { color: css("--muted") }, itemWidth: 14, itemHeight: 10 },
    tooltip: tooltip({ trigger: "axis", axisPointer: { type: "shadow" }, formatter: ([{ dataIndex }]) => instantWords(instants[dataIndex]) }),
    yAxis: axis({ type: "category", inverse: true, data: instants.map((one) => words(one.name)), splitLine: { show: false } }),
    xAxis: byteAxis(Math.max(...instants.flatMap((one) => [one.measured, one.predicted ?? 0]))),
    series: [
      { ...bars("measured", "measured", css("--accent")), label: { show: true, position: "right", color: css("--muted"), formatter: ({ value }) => gib(value) } },
      isPredicted && bars("predicted", "predicted", "transparent", { borderColor: css("--text"), borderWidth: 1.5, borderType: "dashed" }),
    ].filter(Boolean),
  };
}

export function instantsTable(instants) {
  return {
    caption: "Highest allocated bytes of each instant, measured and predicted",
    columns: ["Instant", "Measured", "Predicted"],
    rows: instants.map((one) => [words(one.name), gib(one.measured), gib(one.predicted)]),
  };
}

/** What filled the peak of a run, one bar of components. */
export function contentOption({ by_kind: byKind, bytes }) {
  const parts = Object.entries(byKind).sort((one, other) => other[1] - one[1]);
  return {
    grid: { left: 8, right: 8, top: 6, bottom: 62 },
    legend: { bottom: 0, left: 0, textStyle: { color: css("--text") }, itemWidth: 12, itemHeight: 12, itemGap: 14 },
    tooltip: tooltip({ trigger: "item", formatter: ({ seriesName, value }) => `${seriesName}: ${size(value)} (${percent(value / bytes)})` }),
    xAxis: axis({ type: "value", max: bytes, show: false }),
    yAxis: axis({ type: "category", data: ["peak"], show: false }),
    series: parts.map(([name, value]) => ({
      type: "bar",
      stack: "all",
      name: words(name),
      barWidth: 34,
      itemStyle: { color: componentColour(name), borderColor: css("--surface"), borderWidth: 1 },
      data: [value],
    })),
  };
}

export function contentTable({ by_kind: byKind, bytes, stretch }) {
  return {
    caption: `What was alive at the peak, in ${stretch}`,
    columns: ["Kind", "Bytes", "Share"],
    rows: Object.entries(byKind).map(([name, value]) => [words(name), size(value), percent(value / bytes)]),
  };
}

/** What was read while the probe ran, counter by counter. */
export function timelineOption(samples) {
  const kinds = kindsOf(samples);
  return {
    grid: { left: 76, right: 20, top: 34, bottom: 62 },
    legend: { top: 0, left: 0, textStyle: { color: css("--muted") } },
    tooltip: tooltip({ trigger: "axis", formatter: (points) => [`after ${seconds(points[0].axisValue)}`, ...points.map((point) => `${point.seriesName}: ${size(point.value[1])}`)].join("\n") }),
    dataZoom: [{ type: "inside" }, { type: "slider", height: 16, bottom: 8, borderColor: css("--line"), textStyle: { color: css("--muted") }, labelFormatter: (value) => seconds(value) }],
    xAxis: axis({ type: "value", min: 0, max: "dataMax", axisLabel: { color: css("--muted"), formatter: (value) => (value === 0 ? "0" : seconds(value)), hideOverlap: true }, splitLine: { show: false } }),
    yAxis: byteAxis(Math.max(...samples.map((one) => one.bytes))),
    series: kinds.map(([kind, points]) => ({
      type: "line",
      name: KINDS[kind]?.[0] ?? words(kind),
      step: "end",
      symbolSize: 6,
      showSymbol: points.length < 60,
      sampling: "lttb",
      lineStyle: { width: 2 },
      itemStyle: { color: KINDS[kind]?.[1] ?? "#8a8f98" },
      data: points.map((one) => [one.t_s, one.bytes]),
    })),
  };
}

export function timelineTable(samples) {
  const most = kindsOf(samples).map(([kind, points]) => [KINDS[kind]?.[0] ?? words(kind), points.length, size(Math.max(...points.map((one) => one.bytes)))]);
  return { caption: "Counters that were read while the probe ran", columns: ["Counter", "Readings", "Highest"], rows: most };
}

/** An axis of bytes with ticks that are round in their unit. */
function byteAxis(most) {
  const unit = most >= 2 ** 30 ? 2 ** 30 : most >= 2 ** 20 ? 2 ** 20 : 2 ** 10;
  const raw = Math.max(most / unit / TICKS, 1e-3);
  const ten = 10 ** Math.floor(Math.log10(raw));
  const interval = [1, 2, 5, 10].map((step) => step * ten * unit).find((step) => step >= raw * unit);
  return axis({ type: "value", interval, max: Math.ceil(most / interval) * interval, axisLabel: { color: css("--muted"), formatter: size, hideOverlap: true } });
}

function kindsOf(samples) {
  const found = new Map();
  for (const sample of samples) {
    if (!found.has(sample.kind)) found.set(sample.kind, []);
    found.get(sample.kind).push(sample);
  }
  return [...found];
}

function instantWords({ name, measured, predicted }) {
  const said = predicted === null ? "" : `\npredicted ${size(predicted)} (${percent(predicted / measured - 1, 3)} off)`;
  return `${words(name)}\nmeasured ${size(measured)}${said}`;
}
