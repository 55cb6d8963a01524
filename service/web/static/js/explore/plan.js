// How many GPUs: the search of the API, its candidates, why every smaller number fails, and how to launch what it found.
import { ask, latest } from "../api.js";
import { byId, fill, h } from "../dom.js";
import { exportBar, markdown, markdownTable } from "../export.js";
import { bytesElement, count, gib, MISSING, seconds, short, usd } from "../format.js";
import { showProblem } from "../notice.js";
import { textTabs } from "../tabs.js";
import { changeWords, verdictTag } from "./notes.js";
import { planChart } from "./plan_chart.js";
import { readPart } from "./question.js";

const DEGREES = { data_parallel: "DP", tensor_parallel: "TP", pipeline_parallel: "PP", context_parallel: "CP", expert_parallel: "EP" };
// As the schedulers' own commands take them; what is JSON is YAML too.
const FILES = { slurm: "slurm.sbatch", skypilot: "skypilot.yaml" };
// Of the layout these describe machines; the rest is what the search is for.
const MACHINE = ["gpus_per_node", "network_bytes_per_second", "host_memory_bytes", "nvme_bytes"];

/** Return `search(readQuestion)` and `clear()`; `onUse(candidate)` makes a candidate the question, `onApply(change)` a change. */
export function planPanel({ onUse, onApply, onFail }) {
  const form = byId("plan-form");
  const place = byId("plan");
  const run = latest((signal, body) => ask("/v1/plans", { method: "POST", body, signal }));
  const clear = () => {
    run.stop();
    fill(place);
    fill(byId("plan-export"));
  };
  const search = async (readQuestion) => {
    fill(place, h("p", { class: "muted" }, "Searching…"));
    try {
      const body = planQuestion(form, readQuestion());
      const answer = await run(body);
      if (answer === undefined) return;
      fill(place, answerElement(answer, { onUse, onApply }));
      fill(byId("plan-export"), exportBar({ name: "headroom-plan", csv: () => candidateTable(answer), json: () => ({ question: body, answer }), markdown: () => planMarkdown(answer) }));
    } catch (error) {
      clear();
      const problem = h("div", {});
      fill(place, problem);
      showProblem(problem, error);
      onFail(error);
    }
  };
  return { search, clear };
}

/** The request for POST /v1/plans: what is asked stays to the letter, the layout is searched. */
export function planQuestion(form, question) {
  const named = form.elements.gpus.value.split(",").map((name) => name.trim()).filter(Boolean);
  const constraints = readPart(form, "constraints");
  const layout = Object.fromEntries(MACHINE.filter((name) => question.layout?.[name] !== undefined).map((name) => [name, question.layout[name]]));
  return {
    model: question.model,
    workload: question.workload,
    gpus: named.length > 0 ? named : [question.gpu],
    objective: form.elements.objective.value,
    ...(Object.keys(constraints).length > 0 && { constraints }),
    ...(Object.keys(layout).length > 0 && { layout }),
  };
}

function gpuWords(gpu) {
  return typeof gpu === "string" ? gpu : `GPU of ${gib(gpu.memory_bytes)}`;
}

/** A layout as its axes: "DP 8 · TP 2 · ZeRO-3 (fsdp2)". */
export function layoutWords(layout) {
  const axes = Object.entries(DEGREES).filter(([name]) => (layout[name] ?? 1) > 1).map(([name, word]) => `${word} ${layout[name]}`);
  if (layout.zero_stage > 0) axes.push(`ZeRO-${layout.zero_stage} (${layout.sharding})`);
  return axes.length > 0 ? axes.join(" · ") : "one GPU";
}

function workloadWords(workload) {
  const found = workload.task === "train"
    ? [`batch ${workload.micro_batch_size}`, `checkpointing ${words(workload.activation_checkpointing)}`, workload.framework]
    : [`${workload.num_sequences} sequences`, workload.engine];
  return found.filter(Boolean).join(" · ");
}

function words(value) {
  return value !== null && typeof value === "object" ? JSON.stringify(value) : value;
}

/** Which number would be enough, or that none is, up to the largest that was searched. */
function shortageWords({ beyond, closest }) {
  const tooFew = (number) => (number === 1 ? "1 GPU is not enough" : `${count(number)} GPUs are not enough`);
  if (!beyond) return closest ? tooFew(closest.num_gpus) : "No number of GPUs is enough";
  return beyond.num_gpus === null ? `No number of GPUs up to ${count(beyond.max_gpus)} is enough` : `${tooFew(beyond.allowed_gpus)}, ${count(beyond.num_gpus)} are`;
}

function answerElement(answer, { onUse, onApply }) {
  const head = answer.num_gpus === null ? shortageWords(answer) : `${count(answer.num_gpus)} × ${gpuWords(answer.gpu)}`;
  return h(
    "div",
    { class: "plan-answer" },
    h("p", { class: "plan-count" }, head),
    answer.reason && h("p", {}, answer.reason),
    answer.smallest_change && h("div", { class: "row" }, h("span", {}, "The smallest change that would help:"), changeWords(answer.smallest_change.change), h("button", { type: "button", onclick: () => onApply(answer.smallest_change.change) }, "Apply")),
    planChart([...answer.candidates, ...answer.alternatives.filter(isOther(answer.candidates))], planWords),
    answer.candidates.length > 0 && candidatesElement(answer.candidates, onUse),
    answer.alternatives.length > 1 && alternativesElement(answer.alternatives),
    answer.rejected.length > 0 && rejectedElement(answer.rejected),
    answer.candidates[0]?.requests && launchElement(answer.candidates[0].requests),
    h("p", { class: "muted small" }, `${count(answer.searched.layouts)} layouts considered, ${count(answer.searched.estimated)} estimated, in ${seconds(answer.searched.elapsed_ms / 1000)}.`),
  );
}

/** Whether the best of a kind is no candidate already. */
function isOther(candidates) {
  const known = new Set(candidates.map((one) => gpuWords(one.gpu)));
  return (one) => one.num_gpus !== null && !known.has(gpuWords(one.gpu));
}

function planWords(one) {
  return [`${count(one.num_gpus)} × ${gpuWords(one.gpu)}`, one.layout && layoutWords(one.layout)].filter(Boolean).join(", ");
}

function head(...names) {
  return h("thead", {}, h("tr", {}, names.map((name) => h("th", { scope: "col", class: name.startsWith("#") ? "is-number" : null }, name.replace("#", "") || h("span", { class: "unseen" }, "Use")))));
}

function candidatesElement(candidates, onUse) {
  const row = (one) =>
    h(
      "tr",
      {},
      h("td", {}, h("button", { type: "button", onclick: () => onUse(one) }, "Use")),
      h("td", { class: "is-number" }, count(one.num_gpus)),
      h("td", {}, gpuWords(one.gpu), " ", verdictTag(one.fit.verdict)),
      h("td", {}, h("div", {}, layoutWords(one.layout)), h("div", { class: "muted small" }, workloadWords(one.workload))),
      h("td", { class: "is-number" }, bytesElement(one.fit.per_gpu.device_bytes)),
      h("td", { class: "is-number" }, seconds(one.step_time_s)),
      h("td", { class: "is-number" }, short(one.tokens_per_second)),
      h("td", { class: "is-number", title: one.price_source }, one.cost_per_hour === null ? MISSING : usd(one.cost_per_hour)),
    );
  return h("div", { class: "scroll" }, h("table", { class: "data is-middle" }, head("", "#GPUs", "Kind", "Layout", "#Per GPU", "#Step", "#Tokens/s", "#Per hour"), h("tbody", {}, candidates.map(row))));
}

function alternativesElement(alternatives) {
  const row = (one) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, gpuWords(one.gpu)),
      h("td", { class: "is-number" }, one.num_gpus === null ? "none" : count(one.num_gpus)),
      h("td", { class: "is-number" }, seconds(one.step_time_s)),
      h("td", { class: "is-number" }, one.cost_per_hour === null ? MISSING : usd(one.cost_per_hour)),
      h("td", { class: "why" }, one.reason ?? ""),
    );
  return h("div", { class: "scroll" }, h("table", { class: "data" }, h("caption", {}, "The best on each kind"), head("Kind", "#GPUs", "#Step", "#Per hour", "Why none"), h("tbody", {}, alternatives.map(row))));
}

function rejectedElement(rejected) {
  const row = (one) => h("tr", {}, h("td", { class: "is-number" }, count(one.num_gpus)), h("td", {}, gpuWords(one.gpu)), h("td", { class: "is-number" }, gib(one.missing_bytes)), h("td", { class: "why" }, one.reason));
  return h("div", { class: "scroll" }, h("table", { class: "data" }, h("caption", {}, "Why not fewer"), head("#GPUs", "Kind", "#Lacks", "Reason"), h("tbody", {}, rejected.map(row))));
}

/** The best candidate as launchers and schedulers take it. */
function launchElement(requests) {
  return h("details", {}, h("summary", {}, "Launch the best of them"), textTabs("Launch with", launchTexts(requests)));
}

/** The command and each file that it reads first, then what each scheduler takes: all but the scripts is JSON. */
function launchTexts({ launch, ...others }) {
  const settings = Object.entries(launch?.environment ?? {}).map(([name, value]) => `${name}=${value} `);
  const command = launch?.command ? [["command", `${settings.join("")}${launch.command}`]] : [];
  const schedulers = Object.entries(others).filter(([, value]) => value !== null);
  return [
    ...command,
    ...Object.entries(launch?.files ?? {}).map(([name, text]) => [name, text, name]),
    ...schedulers.map(([name, value]) => [name, typeof value === "string" ? value : JSON.stringify(value, null, 2), FILES[name] ?? `${name}.json`]),
  ];
}

function candidateTable({ candidates }) {
  return {
    columns: ["num_gpus", "gpu", "layout", "workload", "device_bytes", "verdict", "step_time_s", "tokens_per_second", "cost_per_hour"],
    rows: candidates.map((one) => [one.num_gpus, gpuWords(one.gpu), layoutWords(one.layout), workloadWords(one.workload), one.fit.per_gpu.device_bytes, one.fit.verdict, one.step_time_s, one.tokens_per_second, one.cost_per_hour]),
  };
}

function planMarkdown(answer) {
  const { columns, rows } = candidateTable(answer);
  const rejected = answer.rejected.map((one) => markdown`- ${one.num_gpus} × ${gpuWords(one.gpu)}: ${one.reason}`);
  const best = answer.num_gpus === null ? shortageWords(answer) : `${answer.num_gpus} × ${gpuWords(answer.gpu)}`;
  return [markdown`**Fewest GPUs: ${best}**`, "", markdownTable(columns, rows), "", ...(rejected.length > 0 ? ["Why not fewer:", ...rejected, ""] : []), location.href].join("\n");
}
