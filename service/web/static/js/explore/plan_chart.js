// Plans as a picture: what each costs an hour, what it makes a second, and how long a step of it takes.
import { axis, css, makeChart, SERIES_COLOURS, tooltip } from "../charts.js";
import { h } from "../dom.js";
import { count, seconds, short, usd } from "../format.js";

const SMALLEST = 10;
const LARGEST = 34;

/** The chart of candidates; null where fewer than two have a time. `words(candidate)` names one. */
export function planChart(candidates, words) {
  const timed = candidates.filter((one) => one.step_time_s !== null && one.tokens_per_second !== null && one.num_gpus !== null);
  if (timed.length < 2) return null;
  const element = h("div", { class: "plan-chart" });
  const hasPrices = timed.every((one) => one.cost_per_hour !== null);
  const data = timed.map((one) => ({ words: words(one), gpu: String(one.gpu?.memory_bytes ?? one.gpu), x: hasPrices ? one.cost_per_hour : one.num_gpus, y: one.tokens_per_second, step: one.step_time_s }));
  const chart = makeChart(element, {
    label: `Tokens per second of each plan over ${hasPrices ? "its price per hour" : "its GPUs"}; a larger dot takes longer for a step`,
    option: (points) => option(points, hasPrices),
    table: (points) => table(points, hasPrices),
    height: 260,
  });
  // The element has a width once it is on the page.
  requestAnimationFrame(() => (chart.instance.resize(), chart.show(data)));
  return element;
}

function option(points, hasPrices) {
  const longest = Math.max(...points.map((one) => one.step));
  const kinds = [...new Set(points.map((one) => one.gpu))];
  return {
    grid: { left: 64, right: 24, top: 30, bottom: 44 },
    legend: { show: kinds.length > 1, top: 0, right: 0, textStyle: { color: css("--muted") } },
    xAxis: axis({ type: "value", scale: true, name: hasPrices ? "USD per hour" : "GPUs", nameLocation: "middle", nameGap: 28 }),
    yAxis: axis({ type: "value", scale: true, name: "tokens per second", axisLabel: { color: css("--muted"), formatter: short } }),
    tooltip: tooltip({ trigger: "item", formatter: ({ data }) => describe(data.one, hasPrices) }),
    series: kinds.map((kind, place) => ({
      type: "scatter",
      name: kind,
      symbolSize: (_value, { data }) => SMALLEST + (LARGEST - SMALLEST) * Math.sqrt(data.one.step / longest),
      itemStyle: { color: SERIES_COLOURS[place % SERIES_COLOURS.length], opacity: 0.8, borderColor: css("--surface"), borderWidth: 1 },
      data: points.filter((one) => one.gpu === kind).map((one) => ({ value: [one.x, one.y], one })),
    })),
  };
}

function describe(one, hasPrices) {
  return [one.words, `${short(one.y)} tokens/s`, `${seconds(one.step)} a step`, hasPrices ? `${usd(one.x)} an hour` : `${count(one.x)} GPUs`].join("\n");
}

function table(points, hasPrices) {
  return {
    caption: "Plans",
    columns: ["plan", hasPrices ? "USD per hour" : "GPUs", "tokens per second", "seconds of a step"],
    rows: points.map((one) => [one.words, one.x, one.y, one.step]),
  };
}
