// Charts: one look for all, from the page's own colours; each has a table beside it for those who do not see it.
import * as echarts from "../vendor/echarts.esm.min.js";
import { fill, h } from "./dom.js";

// Okabe and Ito's palette and, beyond its seven, Tol's muted: told apart with every kind of colour blindness.
export const COMPONENT_COLOURS = {
  weights: "#0072b2",
  adapters: "#332288",
  master_weights: "#56b4e9",
  gradients: "#009e73",
  optimizer_states: "#e69f00",
  activations: "#d55e00",
  logits: "#f0e442",
  kv_cache: "#cc79a7",
  recurrent_state: "#882255",
  gathered_weights: "#88ccee",
  communication_buffers: "#999933",
  temporaries: "#aa4499",
  cuda_graphs: "#44aa99",
  sampler_state: "#ddcc77",
  request_table: "#117733",
  engine_weights: "#332288",
  engine_kv_cache: "#cc6677",
  engine_other: "#bbbbbb",
  critic_weights: "#117733",
  critic_optimizer_states: "#999933",
  critic_activations: "#882255",
  critic_other: "#aaaaaa",
  critic_context: "#6d7681",
  allocator_slack: "#a7adb5",
  library_workspaces: "#8a7f9c",
  device_context: "#6d7681",
};
export const SERIES_COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999933", "#882255"];
export const VERDICT_COLOURS = { fits: "--good", tight: "--warn", does_not_fit: "--bad" };
const UNKNOWN_COLOUR = "#8a8f98";
const shown = new Map();
const dark = window.matchMedia("(prefers-color-scheme: dark)");

/** The colour of a component, the same in every chart and every answer. */
export function componentColour(name) {
  return COMPONENT_COLOURS[name] ?? UNKNOWN_COLOUR;
}

/** A colour of the page, as charts need it: `css("--good")`. */
export function css(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/**
 * Put a chart into `element`. `option(data)` returns ECharts' option and is asked again when the theme changes;
 * `table(data)` returns `{ caption, columns, rows }`. Returns `{ show(data), png(), on(event, f), instance }`.
 */
export function makeChart(element, { label, option, table, height = null }) {
  const plot = h("div", { class: "plot", role: "img", "aria-label": label });
  const beside = h("div", { class: "unseen" });
  fill(element, plot, beside);
  if (height !== null) plot.style.height = `${height}px`;
  const instance = echarts.init(plot, null, { renderer: "canvas" });
  const chart = {
    instance,
    data: undefined,
    show(data, { height: wanted } = {}) {
      chart.data = data;
      if (wanted !== undefined && plot.style.height !== `${wanted}px`) {
        plot.style.height = `${wanted}px`;
        instance.resize();
      }
      chart.draw();
      fill(beside, tableElement(table(data)));
    },
    draw() {
      if (chart.data === undefined) return;
      instance.setOption({ ...basics(), ...option(chart.data) }, { notMerge: true });
    },
    png: () => instance.getDataURL({ type: "png", pixelRatio: 2, backgroundColor: css("--surface") }),
    on: (event, f) => instance.on(event, f),
  };
  shown.set(plot, chart);
  // A chart that is no longer on the page goes: ECharts itself would keep it.
  const sizes = new ResizeObserver(() => {
    if (plot.isConnected) return instance.resize();
    sizes.disconnect();
    shown.delete(plot);
    instance.dispose();
  });
  sizes.observe(plot);
  return chart;
}

/** A plain table of `{ caption, columns, rows }`, for export and for those who do not see charts. */
export function tableElement({ caption, columns, rows }) {
  return h(
    "table",
    {},
    h("caption", {}, caption),
    h("thead", {}, h("tr", {}, columns.map((name) => h("th", { scope: "col" }, name)))),
    h(
      "tbody",
      {},
      rows.map(([first, ...others]) => h("tr", {}, h("th", { scope: "row" }, first), others.map((cell) => h("td", {}, cell)))),
    ),
  );
}

/** An axis in the page's colours; `more` adds to it. */
export function axis(more) {
  return {
    axisLine: { lineStyle: { color: css("--line-strong") } },
    axisTick: { show: false },
    axisLabel: { color: css("--muted"), fontSize: 12 },
    nameTextStyle: { color: css("--muted"), fontSize: 12 },
    splitLine: { lineStyle: { color: css("--line") } },
    ...more,
  };
}

/** A tooltip without HTML: the policy of these pages forbids the styles that ECharts would write into it. */
export function tooltip(more) {
  return {
    renderMode: "richText",
    confine: true,
    backgroundColor: css("--surface-raised"),
    borderColor: css("--line-strong"),
    textStyle: { color: css("--text"), fontSize: 12 },
    ...more,
  };
}

function basics() {
  return {
    // An answer is to be read when it is there, and bars that still grow say something else.
    animation: false,
    color: SERIES_COLOURS,
    textStyle: { fontFamily: getComputedStyle(document.body).fontFamily },
    tooltip: tooltip({}),
  };
}

function redraw() {
  for (const [plot, chart] of shown) {
    if (plot.isConnected) chart.draw();
    else shown.delete(plot);
  }
}

document.addEventListener("headroom:theme", redraw);
dark.addEventListener("change", redraw);
