// Boxes that suggest models and GPUs, wherever a form has one: `<input data-suggest="models">` in a `.combo`.
import { askAll } from "./api.js";
import { combobox } from "./combobox.js";
import { gpuOption, modelOption } from "./explore/catalogue.js";

const LISTS = {
  models: { path: "/v1/models", option: modelOption, isOffered: (model) => model.supported || model.state === "recording" },
  gpus: { path: "/v1/gpus", option: gpuOption, isOffered: () => true },
};

/** Make every box of the page suggest; a choice is a change of its field. A list that is refused leaves boxes to type into. */
export function suggest() {
  const known = { models: [], gpus: [] };
  const inputs = [...document.querySelectorAll("input[data-suggest]")];
  for (const input of inputs) {
    combobox(input, { options: () => known[input.dataset.suggest], onChoose: () => input.dispatchEvent(new Event("change", { bubbles: true })) });
  }
  const lists = new Set(inputs.map((input) => input.dataset.suggest));
  return Promise.allSettled([...lists].map((name) => read(name).then((options) => (known[name] = options))));
}

async function read(name) {
  const { path, option, isOffered } = LISTS[name];
  return (await askAll(path)).filter(isOffered).map(option);
}
