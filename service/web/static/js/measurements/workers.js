// Who measures: each worker with what it measures on, its releases, and what it does now.
import { fill, h } from "../dom.js";
import { gib, whenElement } from "../format.js";
import { dataTable } from "../tables.js";

const STATES = { idle: "is-good", busy: "is-running", stopped: "", gone: "is-bad" };
const RELEASES = ["gpu-headroom", "torch", "transformers"];

/** Show the workers of the last day. */
export function showWorkers(element, workers) {
  const live = workers.filter((one) => one.state === "idle" || one.state === "busy");
  const others = workers.filter((one) => !live.includes(one));
  const isOpen = element.querySelector("details")?.open ?? false;
  fill(
    element,
    h("h2", {}, "Workers"),
    live.length === 0
      ? h("p", { class: "empty" }, "No worker is alive, so jobs wait. ", h("code", {}, "headroom worker --device trace"), " starts one that needs no GPU.")
      : workerTable(live, "Workers that are alive, the most recently started first"),
    others.length > 0 && h("details", { open: isOpen }, h("summary", {}, `${others.length} that stopped or went silent in the last day`), workerTable(others, "Workers that stopped or went silent")),
  );
}

function workerTable(workers, caption) {
  return dataTable({
    caption,
    columns: [
      { label: "Worker", head: true, cell: (one) => one.name },
      { label: "State", cell: (one) => h("span", { class: `tag ${STATES[one.state] ?? ""}` }, one.state) },
      { label: "Measures on", cell: (one) => one.devices.map((device) => h("div", {}, deviceWords(device))) },
      { label: "Job", cell: (one) => (one.current_job === null ? "" : h("a", { href: `/measurements/${one.current_job}` }, "running job")) },
      { label: "Releases", cell: (one) => RELEASES.filter((name) => one.versions[name]).map((name) => `${name} ${one.versions[name]}`).join(", ") },
      { label: "Last heartbeat", cell: (one) => whenElement(one.last_heartbeat) },
    ],
    items: workers,
  });
}

/** A device in words: "trace on Intel Xeon, 2 cores", "NVIDIA H200, 139.7 GiB, driver 570". */
export function deviceWords(device) {
  const parts = [device.name, device.memory_bytes ? gib(device.memory_bytes) : null, device.num_cores ? `${device.num_cores} cores` : null, device.driver ? `driver ${device.driver}` : null];
  return `${device.device ?? ""}: ${parts.filter(Boolean).join(", ")}`;
}
