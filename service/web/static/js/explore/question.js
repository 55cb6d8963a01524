// The form as a question of the API, and a question or a change as the form. Names in the form are paths in the request.
import { Problem } from "../api.js";
import { byId } from "../dom.js";
import { slim } from "./pasted.js";

const SIZE = /^(\d+(?:\.\d+)?)\s*([kmbt])$/i;
const SIZES = { k: 1e3, m: 1e6, b: 1e9, t: 1e12 };
const MEMORY = /^(\d+(?:\.\d+)?)\s*(Ki|Mi|Gi|Ti)B?$/;
// As the command spells a model on a hub.
const HUB = /^hub:([^@#]+)(?:@([^#]+))?(?:#(.+))?$/;
// Of more digits than the number in any GPU's name.
const BYTES = /^\d{7,16}$/;
const UNITS = [["Ti", 2 ** 40], ["Gi", 2 ** 30], ["Mi", 2 ** 20], ["Ki", 2 ** 10]];

/** A value of the form that cannot even be sent, with the field that it stands in. */
export class Unreadable extends Problem {
  constructor(field, message) {
    super({ status: 0, title: "The question cannot be read", detail: message, errors: [{ field, message }] });
  }
}

/** Return the request that the form asks, for POST /v1/fit. */
export function readQuestion(form) {
  const task = form.elements.task.value;
  const question = { model: model(form), workload: { task }, gpu: gpuValue(form.elements.gpu.value), layout: {} };
  for (const control of controlsOf(form)) put(question, control.name, valueOf(control));
  if (Object.keys(question.layout).length === 0) delete question.layout;
  return question;
}

/** Return the values of a form whose names are paths below `root`, without that root. */
export function readPart(form, root) {
  const whole = { [root]: {} };
  for (const control of controlsOf(form)) put(whole, control.name, valueOf(control));
  return whole[root];
}

/** Show the fields that matter for what is chosen, and leave the others out of the question. */
export function arrange(form) {
  const task = form.elements.task.value;
  for (const word of ["train", "serve"]) {
    const part = byId(`task-${word}`);
    part.hidden = part.disabled = word !== task;
  }
  for (const box of form.querySelectorAll("[data-when]")) {
    const [name, words] = box.dataset.when.split("=");
    const owner = box.closest("fieldset").querySelector(`[name="${name}"]`);
    offer(box, words.split(",").includes(owner.value));
  }
  for (const box of form.querySelectorAll("[data-task]")) offer(box, box.dataset.task === task);
}

function offer(box, isWanted) {
  box.hidden = !isWanted;
  for (const control of box.querySelectorAll("input, select")) control.disabled = !isWanted;
}

/** Put values of the API into the form: `change` maps its names, of workload and layout alike, to values. */
export function applyChange(form, change) {
  if (change.gpu !== undefined) form.elements.gpu.value = gpuText(change.gpu);
  for (const root of ["workload", "layout"]) applyPart(form, root, change, { isWhole: false });
  arrange(form);
  // What was hidden until now has its controls only after the fields were arranged.
  for (const root of ["workload", "layout"]) applyPart(form, root, change, { isWhole: false });
  arrange(form);
}

/** Put a whole part of a request into the form; fields that it does not name are emptied. */
export function applyPart(form, root, values, { isWhole }) {
  const flat = flattened(values, root, new Set(names(form)));
  for (const control of controlsOf(form, root)) {
    if (control.name in flat) setValue(control, flat[control.name]);
    else if (isWhole) control.value = "";
  }
}

/** Put a whole question into the form; one without a model keeps the form's. */
export function applyQuestion(form, { model, gpu, workload, layout = {}, cluster = "" }) {
  for (const radio of form.elements.task) radio.checked = radio.value === workload.task;
  form.elements.gpu.value = gpuText(gpu);
  form.elements.cluster.value = cluster;
  if (model !== undefined) applyModel(form, model);
  // Twice: what a field shows depends on the fields that decide which ones there are.
  for (let round = 0; round < 2; round += 1) {
    arrange(form);
    applyPart(form, "workload", workload, { isWhole: true });
    applyPart(form, "layout", layout, { isWhole: true });
  }
  arrange(form);
}

/** Return what a question says at a path, or undefined. */
export function valueAt(question, path) {
  return path.split(".").reduce((inner, step) => inner?.[step], question);
}

/** Return the paths of a question's words that the form does not hold as they are: it has no field for them. */
export function lostWords(form, question) {
  const asked = readQuestion(form);
  return ["workload", "layout"].flatMap((root) => {
    const flat = flattened(question[root] ?? {}, root, new Set());
    return Object.keys(flat).filter((path) => JSON.stringify(valueAt(asked, path)) !== JSON.stringify(flat[path]) && path !== "workload.task");
  });
}

function applyModel(form, model) {
  const { hf_config: config = model.gguf ?? model.recording } = model;
  form.elements.config.value = config === undefined ? "" : JSON.stringify(config, null, model.recording === undefined ? 2 : 0);
  if (config === undefined) form.elements.model.value = typeof model === "string" ? model : hubText(model) ?? JSON.stringify(model);
}

function hubText({ hub, revision, file, ...others }) {
  if (hub === undefined || Object.keys(others).length > 0) return null;
  return `hub:${hub}${revision === undefined ? "" : `@${revision}`}${file === undefined ? "" : `#${file}`}`;
}

function model(form) {
  const text = form.elements.config.value.trim();
  if (text !== "") return brought(parsed("config", text));
  const name = form.elements.model.value.trim();
  if (name.startsWith("{")) return parsed("model", name);
  const [, hub, revision, file] = HUB.exec(name) ?? [];
  if (hub !== undefined) return { hub, ...(revision && { revision }), ...(file && { file }) };
  const size = SIZE.exec(name);
  return size === null ? name : { num_parameters: Math.round(Number(size[1]) * SIZES[size[2].toLowerCase()]) };
}

/** A pasted document is a config.json, the header of a GGUF file, or a recording. */
export function brought(document) {
  if (isRecording(document)) return { recording: document };
  return isGguf(document) ? { gguf: document } : { hf_config: slim(document) };
}

function isRecording(document) {
  return typeof document?.model_class === "string" && typeof document.passes === "object";
}

function isGguf(document) {
  return Array.isArray(document?.tensors) && typeof document.metadata === "object";
}

/** A GPU of the API as its field holds it: a name, or its memory in the largest unit that is exact. */
export function gpuText(gpu) {
  if (typeof gpu === "string") return gpu;
  const bytes = gpu.memory_bytes;
  if (typeof bytes === "string") return bytes;
  const [unit, size] = UNITS.find(([, size]) => bytes % size === 0) ?? ["", 1];
  return `${bytes / size}${unit}`;
}

/** What the field of a GPU says, as the API wants it. */
export function gpuValue(text) {
  const name = text.trim();
  if (BYTES.test(name)) return { memory_bytes: Number(name) };
  const memory = MEMORY.exec(name);
  return memory === null ? name : { memory_bytes: memory[1] + memory[2] };
}

function parsed(field, text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Unreadable(field, `This is not JSON: ${error.message}.`);
  }
}

function* controlsOf(form, root = null) {
  for (const control of form.elements) {
    if (!control.dataset.kind || control.matches(":disabled")) continue;
    if (root === null || control.name.startsWith(`${root}.`)) yield control;
  }
}

function names(form) {
  return [...controlsOf(form)].map((control) => control.name);
}

/** What a control says, as the API wants it; what is no number where one belongs is sent as it stands, and refused there. */
function valueOf(control) {
  const text = control.value.trim();
  if (text === "") return undefined;
  if (text.startsWith("{")) return parsed(control.name, text);
  const { kind, whole = "" } = control.dataset;
  if (kind === "switch") return text === "true";
  if (kind === "words") return whole.split(" ").includes(text) ? text : text.split(",").map((word) => word.trim()).filter(Boolean).map((word) => (/^[0-9]+$/.test(word) ? Number(word) : word));
  if (["integer", "number", "size"].includes(kind)) return isFinite(text) ? Number(text) : text;
  return text;
}

function put(target, path, value) {
  if (value === undefined) return;
  const steps = path.split(".");
  const last = steps.pop();
  let place = target;
  for (const step of steps) place = place[step] ??= {};
  place[last] = value;
}

/** Objects whose members have fields of their own become those; others stay, as JSON. */
function flattened(values, root, known, found = {}) {
  for (const [name, value] of Object.entries(values)) {
    const path = `${root}.${name}`;
    const isObject = value !== null && typeof value === "object" && !Array.isArray(value);
    if (isObject && !known.has(path)) flattened(value, path, known, found);
    else found[path] = value;
  }
  return found;
}

function setValue(control, value) {
  let text = value === null || value === undefined ? "" : String(value);
  if (Array.isArray(value)) text = value.join(", ");
  else if (value !== null && typeof value === "object") text = JSON.stringify(value);
  if (control.tagName === "SELECT" && ![...control.options].some((option) => option.value === text)) control.add(new Option(text, text));
  control.value = text;
}

