// Who measures: each worker with what it measures on, its releases, and what it does now.
import { fill, h } from "../dom.js";
import { gib, whenElement } from "../format.js";
import { dataTable } from "../tables.js";

const STATES = { idle: "is-good", busy: "is-running", stopped: "", gone: "is-bad" };
const RELEASES = ["gpu-headroom", "torch", "transformers"];

/** Show the workers of the last day. */
export function showWorkers(element, workers) {
  const live = workers.filter(isAlive);
  const others = workers.filter((one) => !live.includes(one));
  const isOpen = element.querySelector("details")?.open ?? false;
  fill(
    element,
    h("h2", {}, "Workers"),
    live.length === 0
      ? h("p", { class: "empty" }, "No worker is alive, so jobs wait. ", h("code", {}, "headroom worker --device trace"), " starts one that needs no GPU, ", h("code", {}, "headroom worker --gpus all"), " one for each GPU.")
      : [gpuTable(live), workerTable(live, "Workers that are alive, the most recently started first")],
    others.length > 0 && h("details", { open: isOpen }, h("summary", {}, `${others.length} that stopped or went silent in the last day`), workerTable(others, "Workers that stopped or went silent")),
  );
}

/** Whether a worker takes jobs. */
export function isAlive(worker) {
  return worker.state === "idle" || worker.state === "busy";
}

/** The GPUs of living workers; nothing where there is none. */
function gpuTable(workers) {
  const gpus = workers.flatMap((worker) => worker.devices.filter((device) => device.device === "cuda").map((device) => ({ ...device, worker })));
  if (gpus.length === 0) return null;
  return dataTable({
    caption: "GPUs that workers measure on",
    columns: [
      { label: "GPU", head: true, cell: (gpu) => gpu.sku ?? gpu.name },
      { label: "UUID", cell: (gpu) => [gpu.uuid, gpu.mig_parent_uuid ? h("div", { class: "muted" }, `slice of ${gpu.mig_parent_uuid}`) : null].filter(Boolean) },
      { label: "Memory", cell: (gpu) => gib(gpu.memory_bytes) },
      { label: "Held by others", cell: (gpu) => othersWords(gpu.worker.observed) },
      { label: "Host", cell: (gpu) => gpu.worker.host },
      { label: "State", cell: (gpu) => stateTag(gpu.worker) },
    ],
    items: gpus,
    stacks: true,
  });
}

function othersWords(observed) {
  if (observed === null) return "not known";
  const processes = observed.foreign_processes === undefined ? "" : `, ${observed.foreign_processes} process${observed.foreign_processes === 1 ? "" : "es"}`;
  return `${gib(observed.used_bytes)}${processes}`;
}

function stateTag(worker) {
  return h("span", { class: `tag ${STATES[worker.state] ?? ""}` }, worker.state);
}

function workerTable(workers, caption) {
  return dataTable({
    caption,
    columns: [
      { label: "Worker", head: true, cell: (one) => one.name },
      { label: "State", cell: stateTag },
      { label: "Measures on", cell: (one) => one.devices.map((device) => h("div", {}, deviceWords(device))) },
      { label: "Job", cell: (one) => (one.current_job === null ? "" : h("a", { href: `/measurements/${one.current_job}` }, "running job")) },
      { label: "Releases", cell: (one) => RELEASES.filter((name) => one.versions[name]).map((name) => `${name} ${one.versions[name]}`).join(", ") },
      { label: "Last heartbeat", cell: (one) => whenElement(one.last_heartbeat) },
    ],
    items: workers,
    stacks: true,
  });
}

/** A device in words: "trace on Intel Xeon, 2 cores", "NVIDIA H200, 139.7 GiB, driver 570". */
export function deviceWords(device) {
  const parts = [device.name, device.memory_bytes ? gib(device.memory_bytes) : null, device.num_cores ? `${device.num_cores} cores` : null, device.driver ? `driver ${device.driver}` : null];
  return `${device.device ?? ""}: ${parts.filter(Boolean).join(", ")}`;
}
