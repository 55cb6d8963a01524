// The page of one measurement: while it runs how far it is, afterwards what it found and how near the prediction was.
import { ask, fetchFile } from "../api.js";
import { makeChart } from "../charts.js";
import { byId, fill, h, say } from "../dom.js";
import { exportBar, markdown, markdownTable, plain, saveBlob } from "../export.js";
import { gib, signedPercent, size, whenElement, words } from "../format.js";
import { exploreLink, layoutWords, workloadWords } from "../layouts.js";
import { statusTag } from "../measurements/table.js";
import { showProblem } from "../notice.js";
import { repeat } from "../polling.js";
import { nameInPath } from "../state.js";
import { facts } from "../tables.js";
import { contentOption, contentTable, instantsOf, instantsOption, instantsTable, sampleRows, timelineOption, timelineTable } from "./charts.js";
import { peakRows, peaksOf, quantityWords, showPeaks } from "./peaks.js";
import { largestTable, showContext, showProbes } from "./probes.js";
import { makeProgress, showPlan } from "./progress.js";
import { followStory } from "./story.js";

const id = nameInPath();
const path = `/v1/measurements/${encodeURIComponent(id)}`;
const LOOK_MS = 5000;
const EMPTY = { plan: null, progress: null, phases: [], samples: [], statuses: [], isBroken: false };
const page = { measurement: null, story: EMPTY, charts: {}, actions: "" };
const showProgress = makeProgress(byId("progress"));
const isOpen = (status) => status === "queued" || status === "running";

/** Return the chart of an element, made when it is first shown: a hidden one has no size. */
function chartOf(name, options) {
  page.charts[name] ??= makeChart(byId(name), options);
  return page.charts[name];
}

function show() {
  const { measurement, story } = page;
  const name = measurement.model ?? measurement.family ?? "inline model";
  document.title = `${name} · Measurement · Headroom`;
  byId("title").textContent = name;
  fill(byId("status"), statusTag({ status: measurement.status, out_of_memory: measurement.peaks?.out_of_memory, problem: measurement.problem?.detail }));
  fill(byId("about"), about(measurement));
  showFailure(measurement);
  byId("progress").hidden = !isOpen(measurement.status);
  if (isOpen(measurement.status)) showProgress(measurement, story);
  byId("found").hidden = measurement.peaks === null;
  if (measurement.peaks !== null) showFound(measurement);
  showContext(byId("context"), measurement);
  showStory(story);
  showActions(measurement);
}

function showStory(story) {
  showPlan(byId("plan"), story.plan);
  byId("timeline-panel").hidden = story.samples.length === 0;
  if (story.samples.length > 0) chartOf("timeline", { label: "Memory while the probe ran", option: timelineOption, table: timelineTable, height: 300 }).show(story.samples);
}

function showFound(measurement) {
  showPeaks(byId("peaks"), measurement);
  const instants = instantsOf(measurement);
  byId("instants-panel").hidden = instants.length === 0;
  if (instants.length > 0) chartOf("instants", { label: "Allocated bytes of each instant", option: instantsOption, table: instantsTable, height: 260 }).show(instants);
  const content = measurement.probes.find((probe) => probe.at_peak)?.at_peak ?? null;
  byId("content-panel").hidden = content === null;
  if (content !== null) {
    chartOf("content", { label: "What filled the peak", option: contentOption, table: contentTable, height: 112 }).show(content);
    fill(byId("largest"), h("details", {}, h("summary", {}, "The largest tensors"), largestTable(content)));
  }
  showProbes(byId("probes"), measurement);
}

function about(measurement) {
  const { question } = measurement;
  const link = question === null || measurement.gpu === null ? null : exploreLink({ ...question, gpu: measurement.gpu });
  return facts([
    ["Ran", question === null ? measurement.task : workloadWords(question.workload)],
    ["Layout", question === null ? null : layoutWords(question.layout)],
    ["For", measurement.gpu],
    ["By", measurement.source === "import" ? "import" : `${measurement.device} probe`],
    ["Asked", whenElement(measurement.created_at)],
    ["Finished", measurement.finished_at === null ? null : whenElement(measurement.finished_at)],
    ["Attempt", measurement.attempt > 1 ? measurement.attempt : null],
    ["Estimate", link === null ? null : h("a", { href: link }, "explore it")],
    ["Taught", measurement.calibration === null ? null : h("a", { href: "/accuracy#calibrations" }, "a calibration")],
  ]);
}

function showFailure({ problem, status, phase }) {
  byId("failure").hidden = problem === null && status !== "cancelled";
  if (problem !== null) fill(byId("failure"), h("div", { class: "notice is-bad", role: "alert" }, h("strong", {}, problem.title ?? "It failed"), h("p", {}, problem.detail ?? "")));
  else if (status === "cancelled") fill(byId("failure"), h("p", { class: "notice" }, phase === "withdrawn" ? "It was withdrawn: it teaches nothing any more." : "It was cancelled."));
}

/** Buttons that are made anew would lose the focus. */
function showActions(measurement) {
  const state = `${measurement.status} ${measurement.phase === "withdrawn"} ${measurement.artifacts.length} ${Object.keys(page.charts)} ${tableOf(measurement) !== null}`;
  if (state === page.actions) return;
  page.actions = state;
  fill(byId("actions"), actions(measurement));
  fill(byId("tools"), tools());
}

function actions({ status, question, source, phase, artifacts }) {
  const button = (label, f, attributes = {}) => h("button", { type: "button", onclick: (event) => act(event.target, f), ...attributes }, label);
  const cancel = () => ask(path, { method: "DELETE" }).then((now) => say(`The measurement is ${now.status}`));
  const again = () => ask("/v1/measurements", { method: "POST", body: question }).then((made) => location.assign(`/measurements/${made.id}`));
  const withdraw = () => ask(`${path}/withdraw`, { method: "POST" }).then(() => say("Withdrawn"));
  const keep = ({ name }) => fetchFile(`${path}/artifacts/${encodeURIComponent(name)}`).then((file) => saveBlob(file.name, file.blob));
  return [
    ...artifacts.map((one) => button(`${words(one.name)}, ${size(one.bytes)}`, () => keep(one), { title: "Download it; pytorch.org/memory_viz shows it, and torch.cuda._memory_viz" })),
    isOpen(status) && button("Cancel", cancel),
    !isOpen(status) && source === "probe" && question !== null && button("Measure again", again),
    status === "succeeded" && phase !== "withdrawn" && button("Withdraw", withdraw, { title: "It teaches nothing any more; what the others teach is learnt anew" }),
  ];
}

async function act(button, f) {
  button.disabled = true;
  try {
    showProblem(byId("trouble"), null);
    await f();
    await refresh();
  } catch (error) {
    showProblem(byId("trouble"), error);
  } finally {
    button.disabled = false;
  }
}

async function refresh() {
  page.measurement = await ask(path);
  show();
}

function measurementMarkdown() {
  const { measurement } = page;
  const { question } = measurement;
  const peaks = peaksOf(measurement).filter((one) => one.name.endsWith("_bytes"));
  const rows = peaks.map((one) => [quantityWords(one.name), gib(one.measured), gib(one.predicted), signedPercent(one.error, 3)]);
  return [
    markdown`**${measurement.model ?? "inline model"}** · ${question === null ? measurement.task : `${workloadWords(question.workload)} · ${layoutWords(question.layout)}`}${measurement.gpu ? ` · ${measurement.gpu}` : ""} · ${measurement.status}`,
    "",
    rows.length > 0 ? markdownTable(["quantity", "measured", "predicted", "error"], rows) : plain(measurement.problem?.detail ?? measurement.phase),
    "",
    location.href,
  ].join("\n");
}

/** Of a probe its samples; of an import, which has none, its peaks; null before there is either. */
function tableOf(measurement) {
  if (page.story.samples.length > 0) return sampleRows(page.story.samples);
  const peaks = peakRows(measurement);
  return peaks.rows.length > 0 ? peaks : null;
}

function tools() {
  return exportBar({
    name: `measurement-${id.slice(0, 8)}`,
    csv: tableOf(page.measurement) !== null && (() => tableOf(page.measurement)),
    json: () => page.measurement,
    png: Object.keys(page.charts).length > 0 && (() => (page.charts.instants ?? page.charts.timeline).png()),
    markdown: measurementMarkdown,
  });
}

async function start() {
  try {
    await refresh();
    byId("body").hidden = false;
    show();
    if (page.measurement.source === "import") return;
    const onChange = (story) => {
      page.story = story;
      // A queued job says nothing of its own when a worker takes it; its first event does.
      if (page.measurement.status === "queued" && story.statuses.at(-1)?.status === "running") return void refresh();
      if (isOpen(page.measurement.status)) showProgress(page.measurement, story);
      showStory(story);
      showActions(page.measurement);
    };
    const onOver = (status) => {
      if (isOpen(page.measurement.status)) say(`The measurement has ${status}`);
      refresh();
    };
    // Where a proxy holds the stream back, looking now and then is enough.
    repeat(() => isOpen(page.measurement.status) && refresh(), LOOK_MS, (error) => showProblem(byId("trouble"), error), () => showProblem(byId("trouble"), null));
    await followStory(id, { onChange, onOver, signal: new AbortController().signal });
  } catch (error) {
    showProblem(byId("trouble"), error);
  }
}

start();
