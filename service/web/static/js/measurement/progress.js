// How far a measurement is: its plan, the phase it is in, and what was read last.
import { fill, h } from "../dom.js";
import { count, percent, seconds } from "../format.js";
import { dataTable, facts } from "../tables.js";

/** Put a panel of progress into `element`, made once so that what is open or focused stays. Returns `show(measurement, story)`. */
export function makeProgress(element) {
  const title = h("h2", {});
  const lost = h("span", { class: "tag is-warn", hidden: true }, "connection lost, trying again");
  const share = h("span", { class: "number" });
  const bar = h("progress", { max: "1", "aria-label": "Progress of the measurement" });
  const told = h("div", {});
  const summary = h("summary", {});
  const phases = h("ol", {});
  const done = h("details", {}, summary, phases);
  fill(element, h("div", { class: "panel-head" }, title, lost, share), bar, told, done);
  return (measurement, story) => {
    const isRunning = measurement.status === "running";
    const progress = story.progress?.progress ?? measurement.progress;
    title.textContent = isRunning ? "Running" : "Waiting";
    share.textContent = isRunning ? percent(progress, 0) : "";
    lost.hidden = !story.isBroken;
    bar.value = progress;
    bar.hidden = !isRunning;
    fill(told, progressFacts(measurement, story));
    done.hidden = story.phases.length === 0;
    summary.textContent = `What was done (${story.phases.length})`;
    fill(phases, story.phases.map((one) => h("li", {}, one.phase, one.reading && h("span", { class: "muted" }, ` · ${one.reading}`))));
  };
}

function progressFacts(measurement, { progress, plan }) {
  return facts([
    ["Now", progress?.phase ?? measurement.phase],
    ["Last reading", progress?.reading],
    ["For", measurement.started_at === null ? null : elapsed(measurement.started_at)],
    ["Expected", plan === null ? null : `about ${seconds(plan.expected_s)} of probing`],
    ["Worker", measurement.worker],
  ]);
}

/** Show what was planned, and why each run. */
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
