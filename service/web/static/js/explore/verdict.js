// The answer in words and figures.
import { fill, h } from "../dom.js";
import { bytesElement, count, exact, gib, percent, seconds, short, words } from "../format.js";

/** Say whether it fits, by how much, and the numbers that people ask for next. */
export function showVerdict(element, question, answer) {
  element.className = `panel verdict is-${answer.verdict}`;
  element.removeAttribute("aria-busy");
  fill(
    element,
    h(
      "div",
      { class: "verdict-text" },
      h("h2", { class: "verdict-line" }, headline(answer)),
      h("p", {}, subject(question, answer), ". ", reason(answer)),
    ),
    gauge(answer),
    h("dl", { class: "figures" }, figures(answer).map(([name, value, note]) => h("div", {}, h("dt", {}, name), h("dd", {}, value, note && h("small", {}, note))))),
    answer.warnings.map((text) => h("div", { class: "notice is-warn" }, text)),
  );
}

/** The verdict in one line. */
export function headline(answer) {
  const { verdict, headroom_bytes, deficit_bytes, serving } = answer;
  if (verdict === "fits") return `Fits, with ${gib(room(answer))} to spare`;
  if (verdict === "tight") return `Tight: ${gib(headroom_bytes)} to spare, and it may need more than that`;
  if (deficit_bytes > 0) return `Does not fit: ${gib(deficit_bytes)} too much`;
  const missing = serving === null ? 0 : serving.required_bytes - serving.budget_bytes;
  if (missing > 0) return `Does not fit: the engine's budget lacks ${gib(missing)}`;
  return serving?.kv_pool_bytes == null ? "Does not fit: a node has too little for what is offloaded" : "Does not fit: the engine does not start";
}

/** The same line where the verdict itself is out of view. */
export function showSummary(element, answer) {
  element.hidden = false;
  element.className = `summary is-${answer.verdict}`;
  element.textContent = headline(answer);
}

/** What is asked about, in short. */
export function subject(question, answer) {
  const { workload } = question;
  const what = workload.task === "train" ? `${workload.method && workload.method !== "full" ? `${workload.method} training` : "training"}` : `serving on ${workload.engine ?? "transformers"}`;
  return `${modelName(question)}, ${what} on ${answer.num_gpus} × ${gpuName(question)}`;
}

export function modelName({ model }) {
  if (typeof model === "string") return model;
  if (model.num_parameters !== undefined) return `a model of ${short(model.num_parameters)} parameters`;
  if (model.hub !== undefined) return model.hub;
  return `your ${(model.hf_config ?? model.recording)?.model_type ?? model.gguf?.metadata["general.architecture"] ?? "model"}`;
}

export function gpuName({ gpu }) {
  return typeof gpu === "string" ? gpu : `a GPU of ${typeof gpu.memory_bytes === "number" ? gib(gpu.memory_bytes) : gpu.memory_bytes}`;
}

/** What is needed of what there is: of an engine that fills its budget, what is asked for of that. */
export function needs({ serving, per_gpu, usable_bytes }) {
  const isPool = serving?.kv_pool_bytes != null;
  return { needed: isPool ? serving.required_bytes : per_gpu.device_bytes, available: isPool ? serving.budget_bytes : usable_bytes };
}

/** What fits is told by what it leaves: of an engine that fills its budget, what it leaves of that. */
export function room(answer) {
  const { serving, headroom_bytes } = answer;
  return serving?.kv_pool_bytes == null ? headroom_bytes : serving.budget_bytes - serving.required_bytes;
}

function reason(answer) {
  const { per_gpu, usable_bytes, serving } = answer;
  const level = `${Math.round(per_gpu.intervals.level * 100)} %`;
  const [low, high] = per_gpu.intervals.device;
  if (serving?.kv_pool_bytes != null) {
    return `What is asked needs ${gib(serving.required_bytes)} of the engine's budget of ${gib(serving.budget_bytes)}; it fills the rest with cache.`;
  }
  const peak = words(per_gpu.peak_instant).toLowerCase();
  return `The fullest GPU needs ${gib(per_gpu.device_bytes)} (${level}: ${gib(low)} to ${gib(high)}) of ${gib(usable_bytes)}; the peak is in ${peak}.`;
}

/** A bar of what is needed against what there is, with the interval on it; the words beside it say the same. */
function gauge(answer) {
  const { per_gpu, usable_bytes } = answer;
  const [low, high] = per_gpu.intervals.device;
  const whole = Math.max(usable_bytes, high) * 1.02;
  const at = (bytes) => `${((bytes / whole) * 100).toFixed(2)}%`;
  const fillBar = h("div", { class: "gauge-fill" });
  const span = h("div", { class: "gauge-span" });
  const limit = h("div", { class: "gauge-limit" });
  fillBar.style.width = at(per_gpu.device_bytes);
  fillBar.style.color = `var(${{ fits: "--good", tight: "--warn", does_not_fit: "--bad" }[answer.verdict]})`;
  span.style.left = at(low);
  span.style.width = at(high - low);
  limit.style.left = at(usable_bytes);
  return h("div", { class: "gauge", "aria-hidden": "true" }, fillBar, span, limit);
}

function figures(answer) {
  const { per_gpu, throughput, checkpoint_bytes, serving } = answer;
  const [low, high] = per_gpu.intervals.device;
  return [
    ["Device, as NVML shows", bytesElement(per_gpu.device_bytes), `${gib(low)} – ${gib(high)}`],
    ["Allocated peak", bytesElement(per_gpu.allocated_bytes), "torch max_memory_allocated"],
    ["Reserved peak", bytesElement(per_gpu.reserved_bytes), "torch max_memory_reserved"],
    ...(serving === null ? [["Between steps", bytesElement(per_gpu.steady_bytes), null]] : servingFigures(serving)),
    ...(throughput === null ? [] : speedFigures(throughput, serving !== null)),
    ["GPUs", count(answer.num_gpus), answer.host_bytes_per_node > 0 ? `${gib(answer.host_bytes_per_node)} on each host` : null],
    ...(checkpoint_bytes === null ? [] : [["Checkpoint", bytesElement(checkpoint_bytes.total), `weights ${gib(checkpoint_bytes.weights)}`]]),
    ["Rests on", words(answer.basis), answer.calibration_measurements > 0 ? `${count(answer.calibration_measurements)} measurements: ${basesWords(answer.bases)}${clusterWords(answer.cluster)}` : "no measurement yet"],
  ];
}

/** Which quantities were measured, or corrected by measurements: "measured allocated, reserved; calibrated step time". */
function clusterWords(cluster) {
  if (cluster === undefined || cluster.quantities.length === 0) return "";
  return `; ${cluster.name} itself: ${cluster.quantities.join(", ").replaceAll("_", " ")}`;
}

function basesWords(bases) {
  const of = (basis) => Object.keys(bases).filter((name) => bases[name] === basis).map((name) => name.replaceAll("_", " "));
  return ["measured", "calibrated"].filter((basis) => of(basis).length > 0).map((basis) => `${basis} ${of(basis).join(", ")}`).join("; ");
}

function servingFigures(serving) {
  const pool = serving.kv_pool_bytes !== null;
  return [
    ["Cache per token", h("span", { title: exact(serving.kv_bytes_per_token) }, `${(serving.kv_bytes_per_token / 1024).toFixed(1)} KiB`), null],
    ["Cache asked for", bytesElement(serving.kv_cache_bytes), null],
    ...(pool ? [["Cache pool", bytesElement(serving.kv_pool_bytes), `${count(serving.kv_pool_tokens)} tokens`]] : []),
    ...(serving.max_num_sequences !== null ? [["Sequences at most", count(serving.max_num_sequences), null]] : []),
  ];
}

function speedFigures(throughput, isServing) {
  const [step, rate] = isServing ? ["Decode step", "Tokens per second"] : ["Step time", "Tokens per second"];
  return [
    ["Decides the time", throughput.bound === "host" ? "the host" : "the GPU", throughput.bound_reason],
    [step, seconds(throughput.step_time_s), throughput.prefill_time_s === null ? `MFU ${percent(throughput.mfu)}` : `prefill ${seconds(throughput.prefill_time_s)}`],
    [rate, short(throughput.tokens_per_second), throughput.hours_for_tokens === null ? null : `${throughput.hours_for_tokens.toFixed(1)} h in all`],
  ];
}
