// Asking for a measurement from the page.
import { ask } from "../api.js";
import { byId, fill, h } from "../dom.js";
import { formState } from "../state.js";
import { clearRefusal, showRefusal } from "../refusals.js";
import { isAlive } from "./workers.js";
import { showTask, workloadOf, visibleState } from "../workloads.js";

const COMMANDS = { cuda: "headroom worker --gpus all", cpu: "headroom worker --device cpu", trace: "headroom worker --device trace" };
/** Make the form work; `workers()` returns those that were seen. A job that is taken opens its own page. */
export function makeAsking(form, { workers }) {
  const trouble = byId("ask-trouble");
  const note = byId("ask-note");
  const words = () => {
    showTask(form);
    const device = form.elements.device.value || chosenDevice(form.elements.gpu.value.trim(), workers());
    const alive = workers().filter((worker) => isAlive(worker) && worker.devices.some((one) => one.device === device));
    fill(note, alive.length > 0 ? `${alive.length} worker${alive.length > 1 ? "s" : ""} measure${alive.length > 1 ? "" : "s"} on ${device}.` : ["No worker measures on ", device, " now; the job will wait until there is one: ", h("code", {}, COMMANDS[device])]);
  };
  form.addEventListener("change", words);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    clearRefusal(form, trouble);
    try {
      const state = visibleState(form, formState(form));
      const made = await ask("/v1/measurements", { method: "POST", body: bodyOf(state) });
      location.assign(`/measurements/${made.id}`);
    } catch (error) {
      showRefusal(form, trouble, error, (field) => form.elements.namedItem(field.replace(/^workload\./, "")));
    }
  });
  words();
  return words;
}

/** The device that the server would take: the GPU where a living worker has the one in question. */
function chosenDevice(gpu, workers) {
  const onGpu = workers.some((one) => isAlive(one) && one.devices.some((device) => device.device === "cuda" && (gpu === "" || device.sku === gpu)));
  return onGpu ? "cuda" : "cpu";
}

function bodyOf(state) {
  return {
    model: state.model ?? "",
    workload: workloadOf(state),
    ...(state.device ? { device: state.device } : {}),
    priority: state.priority,
    ...(state.gpu ? { gpu: state.gpu } : {}),
    ...(state.full_depth === "true" ? { full_depth: true } : {}),
    ...(state.memory_snapshot === "true" ? { artifacts: ["memory_snapshot"] } : {}),
  };
}
