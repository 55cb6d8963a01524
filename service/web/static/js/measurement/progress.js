// How far a measurement is: its plan, the phase it is in, and what was read last.
import { fill, h } from "../dom.js";
import { count, percent, seconds } from "../format.js";
import { dataTable, facts } from "../tables.js";

/** Show the progress of a measurement that runs or waits; `story` may still be empty. */
export function showProgress(element, measurement, story) {
  const { progress, plan } = story;
  const share = progress?.progress ?? measurement.progress;
  const phase = progress?.phase ?? measurement.phase;
  const bar = h("progress", { max: "1", "aria-label": "Progress of the measurement" });
  bar.value = share;
  const isRunning = measurement.status === "running";
  fill(
    element,
    h("div", { class: "panel-head" }, h("h2", {}, isRunning ? "Running" : "Waiting"), story.isBroken && h("span", { class: "tag is-warn" }, "connection lost, trying again"), h("span", { class: "number" }, isRunning ? percent(share, 0) : "")),
    isRunning && bar,
    facts([
      ["Now", phase],
      ["Last reading", progress?.reading],
      ["For", measurement.started_at === null ? null : elapsed(measurement.started_at)],
      ["Expected", plan === null ? null : `about ${seconds(plan.expected_s)} of probing`],
      ["Worker", measurement.worker],
    ]),
    story.phases.length > 0 && h("details", {}, h("summary", {}, `What was done (${story.phases.length})`), h("ol", {}, story.phases.map((one) => h("li", {}, one.phase, one.reading && h("span", { class: "muted" }, ` · ${one.reading}`))))),
  );
}

/** Show what was planned, and why each run; `num` tells how many are over. */
export function showPlan(element, plan) {
  element.hidden = plan === null;
  if (plan === null) return;
  fill(
    element,
    h("h2", {}, "Plan"),
    dataTable({
      caption: `What is run, and why; about ${seconds(plan.expected_s)} in all`,
      columns: [
        { label: "Why", head: true, cell: (run) => run.why },
        { label: "Layers", number: true, cell: (run) => count(run.num_layers) },
        { label: "Batch", number: true, cell: (run) => count(run.micro_batch_size) },
        { label: "Tokens", number: true, cell: (run) => count(run.sequence_length) },
        { label: "Decoded", number: true, cell: (run) => (run.output_tokens ? count(run.output_tokens) : "–") },
        { label: "Expected", number: true, cell: (run) => seconds(run.expected_s) },
      ],
      items: plan.runs,
    }),
    plan.notes.map((note) => h("p", { class: "muted" }, note)),
  );
}

function elapsed(since) {
  return seconds(Math.max(0, (Date.now() - new Date(since).getTime()) / 1000));
}
