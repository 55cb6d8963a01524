// Asking for a measurement from the page.
import { ask } from "../api.js";
import { byId, fill, h } from "../dom.js";
import { formState } from "../state.js";
import { clearRefusal, showRefusal } from "../refusals.js";
import { showTask, workloadOf, visibleState } from "../workloads.js";

const COMMANDS = { cuda: "headroom worker --device cuda", cpu: "headroom worker --device cpu", trace: "headroom worker --device trace" };
/** Make the form work; `workers()` returns those that were seen. A job that is taken opens its own page. */
export function makeAsking(form, { workers }) {
  const trouble = byId("ask-trouble");
  const note = byId("ask-note");
  const words = () => {
    showTask(form);
    const device = form.elements.device.value;
    const alive = workers().filter((worker) => worker.state !== "gone" && worker.state !== "stopped" && worker.devices.some((one) => one.device === device));
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

function bodyOf(state) {
  return {
    model: state.model ?? "",
    workload: workloadOf(state),
    device: state.device,
    priority: state.priority,
    ...(state.gpu ? { gpu: state.gpu } : {}),
    ...(state.full_depth === "true" ? { full_depth: true } : {}),
    ...(state.memory_snapshot === "true" ? { artifacts: ["memory_snapshot"] } : {}),
  };
}
