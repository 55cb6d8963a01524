// What was really run, what was largest at its peak, what it ran on, and what was asked.
import { fill, h } from "../dom.js";
import { bytesElement, count, seconds, size, words } from "../format.js";
import { dataTable, facts } from "../tables.js";
import { copyButton } from "../export.js";

const LARGEST = 12;

/** Show every run of the probe. */
export function showProbes(element, { probes }) {
  element.hidden = probes.length === 0;
  const peak = (one) => one.instants.reduce((most, instant) => Math.max(most, instant.allocated_bytes), 0);
  const bytes = (value) => (typeof value === "number" ? bytesElement(value) : "–");
  fill(
    element,
    h("h2", {}, "Runs"),
    dataTable({
      caption: "What was really run",
      columns: [
        { label: "Layers", number: true, head: true, cell: (one) => count(one.num_layers) },
        { label: "Batch", number: true, cell: (one) => count(one.micro_batch_size) },
        { label: "Tokens", number: true, cell: (one) => count(one.sequence_length) },
        { label: "Decoded", number: true, cell: (one) => (one.output_tokens ? count(one.output_tokens) : "–") },
        { label: "Allocated", number: true, cell: (one) => bytes(peak(one)) },
        { label: "Reserved", number: true, cell: (one) => bytes(one.reserved_bytes) },
        { label: "Device", number: true, cell: (one) => bytes(one.device_bytes) },
        { label: "Between steps", number: true, cell: (one) => bytes(one.steady_bytes) },
        { label: "Step", number: true, cell: (one) => seconds(one.step_time_s?.median) },
        { label: "", cell: (one) => one.out_of_memory && h("span", { class: "tag is-warn" }, "out of memory") },
      ],
      items: probes,
    }),
  );
}

/** The tensors that were largest at the peak of a run. */
export function largestTable({ largest, stretch }) {
  return dataTable({
    caption: `The largest tensors at the peak, in ${stretch}`,
    columns: [
      { label: "Tensor", head: true, cell: (one) => one.name },
      { label: "Kind", cell: (one) => words(one.kind) },
      { label: "Shape", cell: (one) => h("code", {}, `${one.dtype} [${one.shape.join(", ")}]`) },
      { label: "Made in", cell: (one) => one.made_in },
      { label: "Count", number: true, cell: (one) => count(one.count) },
      { label: "Bytes", number: true, cell: (one) => size(one.bytes) },
    ],
    items: largest.slice(0, LARGEST),
  });
}

/** Show the environment, the notes, the readings of an import, and the question. */
export function showContext(element, measurement) {
  const { environment, notes, readings, question, request } = measurement;
  const asked = JSON.stringify(question ?? request, null, 2);
  fill(
    element,
    h("h2", {}, environment === null ? "The question" : "How it was measured"),
    environment !== null && facts(Object.entries(environment).map(([name, value]) => [words(name), value === null ? null : String(value)])),
    notes.length > 0 && h("ul", { class: "notes" }, notes.map((note) => h("li", {}, note))),
    readings.length > 0 &&
      dataTable({
        caption: "Readings of the file",
        columns: [
          { label: "Quantity", head: true, cell: (one) => words(one.quantity.replace(/_bytes$/, "")) },
          { label: "Reading", number: true, cell: (one) => (one.quantity.endsWith("_bytes") ? bytesElement(one.value) : count(one.value)) },
          { label: "Where", cell: (one) => Object.entries(one.place).map(([name, value]) => `${name} ${value}`).join(", ") },
          { label: "Line", number: true, cell: (one) => count(one.line) },
          { label: "Samples", number: true, cell: (one) => count(one.num_samples) },
        ],
        items: readings,
      }),
    h("details", {}, h("summary", {}, "What was asked, as JSON"), h("pre", { class: "code", tabindex: "0" }, asked), copyButton("Copy", () => asked)),
  );
}
