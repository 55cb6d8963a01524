// From an answer on: have it measured, or place it on a cluster that is stored.
import { ask, askAll } from "../api.js";
import { byId } from "../dom.js";
import { showProblem } from "../notice.js";

// Words that the form of a cluster's page has controls for, with what the API takes for one that is left out: the page has
// defaults of its own, which such a question does not mean. Other words go along as JSON.
const CONTROLS = {
  train: { method: "full", sequence_length: "" },
  serve: { engine: "transformers", num_sequences: "", prompt_tokens: "", output_tokens: "0" },
};

/** Make both buttons work; `question()` is what is asked now, or null. Return what to call with each answered question. */
export function makeOnward({ question }) {
  const trouble = byId("onward-trouble");
  const guarded = (act) => async () => {
    const now = question();
    if (now === null) return;
    showProblem(trouble, null);
    try {
      await act(now);
    } catch (error) {
      showProblem(trouble, error);
    }
  };
  byId("measure-this").addEventListener("click", guarded(measure));
  byId("place-this").addEventListener("click", guarded((now) => location.assign(`/clusters?${placeQuery(now)}`)));
  return ({ workload }) => {
    byId("onward-left-out").hidden = workload.evaluation === undefined;
  };
}

async function measure(question) {
  const { model, workload, gpu, layout } = question;
  const named = typeof gpu === "string" ? gpu : null;
  const workers = await askAll("/v1/workers");
  // A probe runs steps alone; beside the button it says so.
  const steps = { ...workload };
  delete steps.evaluation;
  const body = {
    model,
    workload: steps,
    ...(layout && { layout }),
    ...(named && { gpu: named }),
    // Where no GPU can run it, fake tensors tell its allocated bytes; a CPU would take hours.
    ...(!workers.some((worker) => hasGpu(worker, named)) && { device: "trace" }),
  };
  const made = await ask("/v1/measurements", { method: "POST", body });
  location.assign(`/measurements/${made.id}`);
}

function hasGpu({ state, devices }, gpu) {
  return (state === "idle" || state === "busy") && devices.some((one) => one.device === "cuda" && (gpu === null || one.sku === gpu));
}

/** The address of a question on the page of clusters. */
export function placeQuery({ model, workload }) {
  const { task, ...words } = workload;
  const controls = CONTROLS[task];
  const query = new URLSearchParams({ model: typeof model === "string" ? model : "", task });
  for (const [name, usual] of Object.entries(controls)) query.set(name, String(words[name] ?? usual));
  const more = Object.fromEntries(Object.entries(words).filter(([name]) => !(name in controls)));
  if (Object.keys(more).length > 0) query.set("more", JSON.stringify(more));
  return query.toString();
}
