// Predicted against measured: each point with its interval, the line where both agree, and the band that intervals make.
import { axis, css, tooltip } from "../charts.js";
import { count, percent, signedPercent } from "../format.js";
import { QUANTITIES, reading, rowWords } from "./quantities.js";

const BLUE = "#0072b2";
const SKY = "#56b4e9";
const ORANGE = "#d55e00";
const GREY = "#8a8f98";
const TABLE_ROWS = 200;
const TICKS = 8;
const GROUPS = [
  { name: "within its interval", is: true, colour: () => (isDark() ? SKY : BLUE), symbol: "circle" },
  { name: "outside of it", is: false, colour: () => ORANGE, symbol: "triangle" },
  { name: "no interval", is: null, colour: () => GREY, symbol: "diamond" },
];

/** Return what is drawn of rows: `{ points, quantity, answer, plot, band }`. */
export function scatterData(rows, { quantity, answer, plot }) {
  const points = rows.flatMap((row) => {
    const one = reading(row, quantity, answer);
    return one === null || one.predicted === null || one.measured <= 0 ? [] : [{ ...one, row }];
  });
  return { points, quantity, answer, plot, band: bandOf(points) };
}

/** Sum up what is drawn, in a sentence. */
export function scatterWords({ points, quantity }) {
  if (points.length === 0) return `None of these measurements has ${QUANTITIES[quantity].label} beside a prediction.`;
  const errors = points.map((one) => Math.abs(one.error)).sort((a, b) => a - b);
  const known = points.filter((one) => one.isInside !== null);
  const inside = known.filter((one) => one.isInside).length;
  const cover = known.length === 0 ? "" : `; ${inside} of ${known.length} within their interval`;
  return `${count(points.length)} readings of ${QUANTITIES[quantity].label}: median error ${percent(errors[Math.floor(errors.length / 2)], 2)}, largest ${percent(errors.at(-1), 2)}${cover}.`;
}

/** Return ECharts' option. */
export function scatterOption(data) {
  const isError = data.plot === "error";
  const { show } = QUANTITIES[data.quantity];
  const extent = extentOf(data.points);
  const ticks = ticksOf(extent);
  const label = { color: css("--muted"), formatter: show, customValues: ticks };
  const log = { type: "log", logBase: 2, min: extent[0], max: extent[1], axisTick: { show: false, customValues: ticks }, axisLabel: label };
  const groups = GROUPS.map((group) => series(group, data.points.filter((one) => one.isInside === group.is), isError));
  return {
    grid: { left: 64, right: 20, top: 34, bottom: 52 },
    legend: { top: 0, right: 0, data: groups.filter((one) => one.data.length > 0).map((one) => one.name), textStyle: { color: css("--muted") }, itemWidth: 12, itemHeight: 10 },
    tooltip: tooltip({ formatter: ({ data: point }) => (point?.one ? pointWords(point.one, show) : "") }),
    xAxis: axis({ ...log, name: "Measured", nameLocation: "middle", nameGap: 30 }),
    yAxis: isError ? errorAxis() : axis({ ...log, name: "Predicted", nameLocation: "middle", nameGap: 50 }),
    series: [
      ...(data.band === null ? [] : [bandSeries(data.band, extent, isError)]),
      agreement(extent, isError),
      whiskers(data.points, isError),
      ...groups,
    ],
  };
}

/** The same as a table, for those who do not see it. */
export function scatterTable({ points, quantity }) {
  const { label, show } = QUANTITIES[quantity];
  return {
    caption: `Predicted against measured ${label}${points.length > TABLE_ROWS ? `, the first ${TABLE_ROWS} of ${points.length}` : ""}`,
    columns: ["Model", "What ran", "Measured", "Predicted", "Error", "Within the interval"],
    rows: points.slice(0, TABLE_ROWS).map((one) => [one.row.model ?? one.row.family ?? "inline model", rowWords(one.row), show(one.measured), show(one.predicted), signedPercent(one.error, 2), one.isInside === null ? "not known" : one.isInside ? "yes" : "no"]),
  };
}

function series({ name, colour, symbol }, points, isError) {
  return {
    type: "scatter",
    name,
    symbol,
    symbolSize: 9,
    itemStyle: { color: colour(), borderColor: css("--surface"), borderWidth: 1 },
    data: points.map((one) => ({ value: [one.measured, isError ? one.error * 100 : one.predicted], one })),
    z: 4,
  };
}

/** The ends of the median interval of these points, over their answers; null where no answer has one. */
function bandOf(points) {
  const known = points.filter((one) => one.isInside !== null && one.low > 0);
  if (known.length === 0) return null;
  const median = (of) => known.map(of).sort((a, b) => a - b)[Math.floor(known.length / 2)];
  return { low: median((one) => one.low / one.predicted), high: median((one) => one.high / one.predicted) };
}

function extentOf(points) {
  const values = points.flatMap((one) => [one.measured, one.predicted]);
  if (values.length === 0) return [1, 10];
  // Whole powers of two: ticks are round in bytes.
  return [2 ** Math.floor(Math.log2(Math.min(...values) / 1.2)), 2 ** Math.ceil(Math.log2(Math.max(...values) * 1.2))];
}

/** Powers of two, so many that none is crowded. */
function ticksOf([least, most]) {
  const [first, last] = [Math.log2(least), Math.log2(most)];
  const step = Math.max(1, Math.ceil((last - first) / TICKS));
  return Array.from({ length: Math.floor((last - first) / step) + 1 }, (_, index) => 2 ** (first + index * step));
}

function errorAxis() {
  return axis({ type: "value", name: "Error", nameLocation: "middle", nameGap: 50, axisLabel: { color: css("--muted"), formatter: (value) => `${value} %` } });
}

function agreement([least, most], isError) {
  return {
    type: "line",
    silent: true,
    symbol: "none",
    lineStyle: { color: css("--muted"), width: 1, type: "dashed" },
    data: isError ? [[least, 0], [most, 0]] : [[least, least], [most, most]],
    z: 2,
  };
}

/** An answer a is held by readings from low × a to high × a: above and below the line of agreement as far as that. */
function bandSeries({ low, high }, [least, most], isError) {
  const corners = isError
    ? [[least, (1 / low - 1) * 100], [most, (1 / low - 1) * 100], [most, (1 / high - 1) * 100], [least, (1 / high - 1) * 100]]
    : [[least, least / low], [most, most / low], [most, most / high], [least, least / high]];
  return {
    type: "custom",
    silent: true,
    clip: true,
    data: [[least, isError ? 0 : least]],
    renderItem: (_, api) => ({ type: "polygon", shape: { points: corners.map((corner) => api.coord(corner)) }, style: { fill: css("--accent"), opacity: 0.1 } }),
    z: 1,
  };
}

/** Where an answer would lie in its interval: around it, or as an error, around none. */
function whiskers(points, isError) {
  const ends = (one) => (isError ? [(one.predicted / one.high - 1) * 100, (one.predicted / one.low - 1) * 100] : [one.low, one.high]);
  return {
    type: "custom",
    silent: true,
    clip: true,
    data: points.filter((one) => one.isInside !== null && one.low > 0).map((one) => [one.measured, ...ends(one)]),
    renderItem: (_, api) => {
      const [x, bottom] = api.coord([api.value(0), api.value(1)]);
      const [, top] = api.coord([api.value(0), api.value(2)]);
      return { type: "line", shape: { x1: x, y1: bottom, x2: x, y2: top }, style: { stroke: css("--muted"), lineWidth: 1.5, opacity: 0.7 } };
    },
    encode: { x: 0, y: [1, 2] },
    z: 3,
  };
}

function pointWords(one, show) {
  const interval = one.isInside === null ? "" : `\ninterval ${show(one.low)} – ${show(one.high)}`;
  return `${one.row.model ?? one.row.family ?? "inline model"}\n${rowWords(one.row)}${one.row.gpu ? ` on ${one.row.gpu}` : ""}\nmeasured ${show(one.measured)}\npredicted ${show(one.predicted)} (${signedPercent(one.error, 2)})${interval}`;
}

function isDark() {
  return getComputedStyle(document.documentElement).colorScheme === "dark";
}
