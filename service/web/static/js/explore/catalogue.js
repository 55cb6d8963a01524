// Models and GPUs that can be asked about, and the two boxes that offer them.
import { askAll } from "../api.js";
import { combobox } from "../combobox.js";
import { byId } from "../dom.js";
import { gib } from "../format.js";

const NO_CLUSTER = { value: "", names: [] };

/** Fetch both lists and put them behind their fields; `onChoose()` is called when something is taken from one. */
export function offerCatalogue(onChoose) {
  const known = { models: [], gpus: [], clusters: [] };
  combobox(byId("model"), { options: () => known.models.map(modelOption), onChoose });
  combobox(byId("gpu"), { options: () => gpuOptions(known.gpus), onChoose });
  offerClusters(known, onChoose);
  const ready = Promise.all([
    askAll("/v1/models").then((items) => (known.models = items.filter((item) => item.supported || item.state === "recording"))),
    askAll("/v1/gpus").then((items) => (known.gpus = items)),
  ]);
  const offered = { model: () => known.models.map(modelOption), gpu: () => gpuOptions(known.gpus), cluster: () => [NO_CLUSTER, ...known.clusters] };
  return { known, ready, isWhole: (input) => !(input.id in offered) || isNamed(offered[input.id](), input.value) };
}

// Inventories are long: they are fetched when somebody turns to the field, and most never do.
function offerClusters(known, onChoose) {
  const input = byId("cluster");
  combobox(input, { options: () => known.clusters, onChoose });
  const fetchNames = async () => {
    known.clusters = (await askAll("/v1/clusters")).map(({ name }) => ({ value: name, note: "", names: [], also: "" }));
    if (document.activeElement === input) input.dispatchEvent(new Event("input", { bubbles: true }));
  };
  input.addEventListener("focus", () => fetchNames().catch(() => {}), { once: true });
}

/** Tell whether a text is the whole of a name that can be asked about, and not a part of one that is being typed. */
function isNamed(options, text) {
  const name = text.trim().toLowerCase();
  return options.some((one) => one.value.toLowerCase() === name || one.names.some((also) => also.toLowerCase() === name));
}

/** A model as a box offers it. */
export function modelOption(model) {
  const note = model.origin === "catalogue" ? (model.family ?? "") : `stored · ${model.family ?? ""}`;
  const names = model.aliases ?? [];
  return { value: model.name, note, names, also: `${names.join(" ")} ${model.family ?? ""}` };
}

/** GPUs as a box offers them: those of servers before the others, and last the slices that MIG cuts of them. */
export function gpuOptions(gpus) {
  const place = (gpu) => (gpu.form === "server" ? 0 : 1);
  const whole = [...gpus].sort((left, right) => place(left) - place(right)).map(gpuOption);
  return [...whole, ...gpus.flatMap(sliceOptions)];
}

function sliceOptions(gpu) {
  return gpu.mig_profiles.map((profile) => ({ value: `${gpu.name}/${profile.name}`, note: gib(profile.usable_bytes), names: [], also: `mig slice ${gpu.family}` }));
}

/** A whole GPU as a box offers it. */
export function gpuOption(gpu) {
  const names = [gpu.family, ...Object.values(gpu.aliases).flat()];
  return { value: gpu.name, note: gib(gpu.usable_bytes), names, also: `${gpu.vendor} ${names.join(" ")}` };
}
