// The highest readings beside what the estimator had said of them.
import { fill, h } from "../dom.js";
import { bytesElement, count, gib, seconds, signedPercent, words } from "../format.js";
import { dataTable } from "../tables.js";

const BYTES = ["allocated_bytes", "reserved_bytes", "device_bytes", "device_total_used_bytes", "process_rss_bytes"];
const MEANINGS = {
  allocated_bytes: "torch.cuda.max_memory_allocated: live tensors",
  reserved_bytes: "torch.cuda.max_memory_reserved: what the caching allocator holds",
  device_bytes: "what NVML shows for the process",
  device_total_used_bytes: "what NVML shows for the whole GPU, less what was there before",
  process_rss_bytes: "what the probe's process held of the host",
};

/** Return `[{ name, measured, predicted, low, high, error, calibrated }]` of a measurement; numbers are null where unknown. */
export function peaksOf({ peaks, prediction, step_time_s: step }) {
  const told = new Map((prediction?.quantities ?? []).map((one) => [one.quantity, one]));
  if (prediction?.allocated_bytes && !told.has("allocated_bytes")) told.set("allocated_bytes", { predicted: prediction.allocated_bytes, error: prediction.error, low: prediction.low, high: prediction.high });
  const measured = new Map(BYTES.filter((name) => typeof peaks?.[name] === "number").map((name) => [name, peaks[name]]));
  for (const [name, value] of Object.entries(peaks?.engine ?? {})) if (typeof value === "number") measured.set(name, value);
  for (const one of told.values()) if (one.quantity && !measured.has(one.quantity)) measured.set(one.quantity, one.measured);
  const rows = [...measured].map(([name, value]) => {
    const said = told.get(name) ?? {};
    return { name, measured: value, predicted: said.predicted ?? null, low: said.low ?? null, high: said.high ?? null, error: said.error ?? null, calibrated: said.calibrated ?? null };
  });
  return step?.median ? [...rows, { name: "step_time_s", measured: step.median, predicted: null, low: null, high: null, error: null, calibrated: null }] : rows;
}

/** The same as rows for a spreadsheet. */
export function peakRows(measurement) {
  const columns = ["quantity", "measured", "predicted", "low", "high", "error"];
  return { columns, rows: peaksOf(measurement).map((one) => [one.name, ...columns.slice(1).map((name) => one[name])]) };
}

/** Show them, each with a strip that has the reading in its interval. */
export function showPeaks(element, measurement) {
  const rows = peaksOf(measurement);
  const { peaks } = measurement;
  fill(
    element,
    h("h2", {}, "Peaks"),
    peaks?.out_of_memory && h("p", { class: "notice is-warn" }, "The probe ran out of memory: that is what was found, and readings stop there."),
    dataTable({
      caption: measurement.extrapolated ? "For the model that was asked, from the slices that were run" : "For the model that was asked, run whole",
      columns: [
        { label: "Quantity", head: true, cell: (one) => h("span", { title: MEANINGS[one.name] }, quantityWords(one.name)) },
        { label: "Measured", number: true, cell: (one) => value(one.name, one.measured) },
        { label: "Predicted", number: true, cell: (one) => value(one.name, one.predicted) },
        { label: "95 % interval", number: true, cell: (one) => (one.low === null ? "–" : `${gib(one.low)} – ${gib(one.high)}`) },
        { label: "Where", cell: strip },
        { label: "Error", number: true, cell: errorTag },
      ],
      items: rows,
    }),
  );
}

/** "allocated_bytes" is "Allocated"; what the host's process held says so. */
export function quantityWords(name) {
  return name === "process_rss_bytes" ? "Host process" : words(name.replace(/_(bytes|s)$/, ""));
}

function value(name, number) {
  if (number === null) return "–";
  return name.endsWith("_bytes") ? bytesElement(number) : name.endsWith("_s") ? seconds(number) : count(number);
}

function errorTag(one) {
  if (one.error === null) return "–";
  const isInside = one.low !== null && one.measured >= one.low && one.measured <= one.high;
  return h("span", { class: `tag ${one.low === null ? "" : isInside ? "is-good" : "is-bad"}` }, signedPercent(one.error, 3));
}

/** A line from a fifth below to a fifth above both, the interval on it, and a mark for the reading. */
function strip({ measured, predicted, low, high }) {
  if (low === null || predicted === null) return "";
  const ends = [Math.min(low, measured), Math.max(high, measured)];
  const margin = Math.max((ends[1] - ends[0]) * 0.2, predicted * 0.001);
  const place = (bytes) => `${(((bytes - ends[0] + margin) / (ends[1] - ends[0] + 2 * margin)) * 100).toFixed(2)}%`;
  const band = h("span", { class: "strip-band" });
  Object.assign(band.style, { left: place(low), right: `calc(100% - ${place(high)})` });
  const mark = h("span", { class: "strip-mark" });
  mark.style.left = place(measured);
  const isInside = measured >= low && measured <= high;
  return h("span", { class: "strip", role: "img", "aria-label": isInside ? "within the interval" : "outside of the interval" }, band, mark);
}
