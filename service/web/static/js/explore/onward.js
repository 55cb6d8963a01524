// From an answer on: have it measured, or place it on a cluster that is stored.
import { ask, askAll } from "../api.js";
import { byId } from "../dom.js";
import { showProblem } from "../notice.js";

// Words that the form of a cluster's page has controls for; the others go along as JSON.
const CONTROLS = new Set(["method", "engine", "sequence_length", "num_sequences", "prompt_tokens", "output_tokens"]);

/** Make both buttons work; `question()` is what is asked now, or null. */
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
}

async function measure(question) {
  const { model, workload, gpu, layout } = question;
  const named = typeof gpu === "string" ? gpu : null;
  const workers = await askAll("/v1/workers");
  const body = {
    model,
    workload,
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
  const query = new URLSearchParams({ model: typeof model === "string" ? model : "", task });
  // The page of a cluster has defaults of its own, which a question that leaves them out does not mean.
  if (task === "train") query.set("method", words.method ?? "full");
  else query.set("engine", words.engine ?? "transformers");
  const more = {};
  for (const [name, value] of Object.entries(words)) {
    if (CONTROLS.has(name)) query.set(name, String(value));
    else more[name] = value;
  }
  if (Object.keys(more).length > 0) query.set("more", JSON.stringify(more));
  return query;
}
