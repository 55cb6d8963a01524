// The table of measurements, a page of it at a time.
import { h } from "../dom.js";
import { signedPercent, whenElement } from "../format.js";
import { dataTable } from "../tables.js";
import { bestReading, errorClass, QUANTITIES, rowWords, STATUS_CLASSES } from "./quantities.js";

const INSIDE = "Predicted against measured: green where the reading lies within the interval that was promised, red where it does not";

/** Return a page of rows as a table. */
export function measurementTable(rows, caption) {
  const best = new Map(rows.map((row) => [row, { analytic: bestReading(row, "predicted"), calibrated: bestReading(row, "calibrated") }]));
  const shown = (row, value) => {
    const { analytic } = best.get(row);
    return analytic === null ? "–" : QUANTITIES[analytic.name].show(analytic[value]);
  };
  return dataTable({
    caption,
    columns: [
      { label: "Model", head: true, cell: (row) => h("a", { href: `/measurements/${row.id}` }, row.model ?? row.family ?? "inline model") },
      { label: "What ran", cell: rowWords },
      { label: "GPU", cell: (row) => row.gpu ?? row.environment_gpu ?? "–" },
      { label: "By", cell: (row) => (row.source === "import" ? "import" : row.device) },
      { label: "Status", cell: (row) => statusTag(row) },
      { label: "Measured", number: true, cell: (row) => h("span", { title: quantityLabel(best.get(row).analytic) }, shown(row, "measured")) },
      { label: "Predicted", number: true, cell: (row) => shown(row, "predicted") },
      { label: "Error", number: true, title: INSIDE, cell: (row) => errorTag(best.get(row).analytic) },
      { label: "Calibrated", number: true, title: INSIDE, cell: (row) => errorTag(best.get(row).calibrated) },
      { label: "Asked", cell: (row) => whenElement(row.created_at) },
    ],
    items: rows,
  });
}

/** The state of a measurement as a tag; one that ran out of memory says so. */
export function statusTag({ status, out_of_memory: isFull, problem }) {
  const text = isFull ? "out of memory" : status;
  return h("span", { class: `tag ${isFull ? "is-warn" : STATUS_CLASSES[status]}`, title: typeof problem === "string" ? problem : null }, text);
}

function errorTag(one) {
  if (one === null || one.error === null) return "–";
  const title = one.isInside === null ? "no interval" : one.isInside ? "within its interval" : "outside of its interval";
  return h("span", { class: `tag ${errorClass(one)}`, title: `${quantityLabel(one)}, ${title}` }, signedPercent(one.error, 2));
}

function quantityLabel(one) {
  return one === null ? "" : QUANTITIES[one.name].label;
}
