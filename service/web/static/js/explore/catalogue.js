// Models and GPUs that can be asked about, and the two boxes that offer them.
import { askAll } from "../api.js";
import { combobox } from "../combobox.js";
import { byId } from "../dom.js";
import { gib } from "../format.js";

/** Fetch both lists and put them behind their fields; `onChoose()` is called when something is taken from one. */
export function offerCatalogue(onChoose) {
  const known = { models: [], gpus: [] };
  combobox(byId("model"), { options: () => known.models.map(modelOption), onChoose });
  combobox(byId("gpu"), { options: () => known.gpus.map(gpuOption), onChoose });
  const ready = Promise.all([
    askAll("/v1/models").then((items) => (known.models = items.filter((item) => item.supported))),
    askAll("/v1/gpus").then((items) => (known.gpus = items)),
  ]);
  return { known, ready };
}

function modelOption(model) {
  const note = model.origin === "catalogue" ? (model.family ?? "") : `stored · ${model.family ?? ""}`;
  return { value: model.name, note, also: `${(model.aliases ?? []).join(" ")} ${model.family ?? ""}` };
}

function gpuOption(gpu) {
  return { value: gpu.name, note: gib(gpu.usable_bytes), also: `${gpu.vendor} ${gpu.family} ${Object.values(gpu.aliases).flat().join(" ")}` };
}
