// What would fit on a cluster now: the question, the plans, and where on the nodes one of them would run.
import { ask, latest } from "../api.js";
import { fill, h, say } from "../dom.js";
import { copyButton, markdown } from "../export.js";
import { count, gib, seconds, usd, whenElement, words } from "../format.js";
import { exploreLink, layoutWords, workloadWords } from "../layouts.js";
import { clearRefusal, showRefusal } from "../refusals.js";
import { dataTable } from "../tables.js";
import { numberOf, workloadOf } from "../workloads.js";
import { places, reserveForm } from "./reservations.js";

const PLACED = { placed: ["is-good", "fits now"], not_today: ["is-warn", "not today"], never: ["is-bad", "never"] };

/** Return the body that asks for a plan on a cluster, from the state of the form. Throws a Problem for words that are no JSON object. */
export function planBody(cluster, state) {
  const body = { model: state.model, workload: workloadOf(state), cluster, objective: state.objective };
  return state.global_batch_size ? { ...body, constraints: { global_batch_size: numberOf(state.global_batch_size) } } : body;
}

/** Return which cells of which nodes a placement takes, by pool: `Map(pool → Map(node → Map(cell → replica)))`. */
export function marksOf(placement, pools) {
  const found = new Map();
  for (const seat of placement?.nodes ?? []) {
    const node = pools.find((pool) => pool.name === seat.pool)?.nodes.find((one) => one.name === seat.node);
    if (node === undefined || seat.mig_profile !== null) continue;
    const nodes = found.get(seat.pool) ?? new Map();
    const cells = nodes.get(seat.node) ?? new Map();
    const free = node.cells.flatMap((cell, index) => (cell.state === "free" && !cells.has(index) ? [index] : []));
    for (const index of seat.gpu_indices ?? free.slice(0, seat.num_gpus)) cells.set(index, seat.replica);
    found.set(seat.pool, nodes.set(seat.node, cells));
  }
  return found;
}

/** Join the form with the place for its answers. `onPick(placement)` shows one on the nodes; `onReserved()` reads them again. */
export function makePlanner({ form, answer, trouble, cluster, onPick, onReserved }) {
  const run = latest((signal, body) => ask("/v1/plans", { method: "POST", body, signal }));
  const controlOf = (field) => form.elements.namedItem(field.replace(/^(workload|constraints)\./, ""));
  const planner = { found: null, picked: 0, body: null };
  planner.ask = async (state, picked = 0) => {
    clearRefusal(form, trouble);
    run.stop();
    // What was found before is of another question: it is neither drawn again nor taken along.
    planner.found = null;
    onPick(null, picked);
    fill(answer, h("p", { class: "muted", role: "status" }, "Searching layouts, and nodes that are free…"));
    try {
      const body = planBody(cluster, state);
      const found = await run(body);
      if (found === undefined) return;
      Object.assign(planner, { found, body, picked: Math.min(picked, found.candidates.length - 1) });
      planner.draw();
    } catch (error) {
      fill(answer);
      showRefusal(form, trouble, error, controlOf);
    }
  };
  planner.pick = (index) => {
    planner.picked = index;
    planner.draw();
  };
  planner.draw = () => {
    const candidate = planner.found.candidates[planner.picked];
    const placement = candidate?.placement ?? null;
    fill(answer, headline(planner.found), planTable(planner), candidate && detail(planner, candidate, { cluster, onReserved }), alternatives(planner.found), rejections(planner.found));
    onPick(placement?.status === "placed" ? placement : null, planner.picked);
  };
  return planner;
}

/** The answer as a block for a ticket. */
export function planMarkdown(planner, cluster) {
  if (planner.found === null) return "";
  const { model, workload } = planner.body;
  const lines = planner.found.candidates.map((one) => markdown`- ${candidateWords(one)}: ${one.placement === null ? "" : placementWords(one.placement)}`);
  return [markdown`**${model}** · ${workloadWords(workload)} on cluster **${cluster}**: ${verdict(planner.found)[1]}`, "", ...lines].join("\n");
}

function verdict(found) {
  const best = found.candidates[0];
  if (best === undefined) return ["is-bad", found.reason ?? "Nothing is enough."];
  const kind = best.placement?.status ?? "placed";
  if (kind === "placed") return ["is-good", `${best.num_gpus} × ${best.gpu} would run it now`];
  return [PLACED[kind][0], found.reason ?? best.placement.reason];
}

function headline(found) {
  const [kind, text] = verdict(found);
  say(text);
  const change = found.smallest_change;
  return h(
    "div",
    { class: `notice ${kind} verdict` },
    h("strong", {}, text),
    change !== null && h("p", {}, `The smallest change that would help: ${Object.entries(change.change).map(([name, value]) => `${words(name).toLowerCase()} ${value}`).join(", ")}`),
    h("p", { class: "muted" }, `${count(found.searched.layouts)} layouts in ${seconds(found.searched.elapsed_ms / 1000)}`),
  );
}

function candidateWords(one) {
  return `${one.num_gpus} × ${one.gpu}, ${layoutWords(one.layout)}, ${gib(one.fit.per_gpu.device_bytes)} of ${gib(one.fit.usable_bytes)}`;
}

function placementWords(placement) {
  return placement.status === "placed" ? places(placement.nodes) : placement.reason;
}

function planTable(planner) {
  if (planner.found.candidates.length === 0) return null;
  const status = (one) => PLACED[one.placement?.status ?? "placed"];
  return dataTable({
    caption: "Plans, the best first; the chosen one is shown on the nodes",
    columns: [
      {
        label: "Show",
        cell: (one) => {
          const index = planner.found.candidates.indexOf(one);
          return h("input", { type: "radio", name: "plan", "aria-label": `Show ${candidateWords(one)}`, checked: index === planner.picked, onchange: () => planner.pick(index) });
        },
      },
      { label: "GPUs", head: true, cell: (one) => `${one.num_gpus} × ${one.gpu}` },
      { label: "Layout", cell: (one) => layoutWords(one.layout) },
      { label: "Workload", cell: (one) => workloadWords(one.workload) },
      { label: "Per GPU", number: true, cell: (one) => gib(one.fit.per_gpu.device_bytes) },
      { label: "Headroom", number: true, cell: (one) => gib(one.fit.headroom_bytes) },
      { label: "Step", number: true, cell: (one) => seconds(one.step_time_s) },
      { label: "Per hour", number: true, cell: (one) => usd(one.cost_per_hour) },
      { label: "Today", cell: (one) => h("span", { class: `tag ${status(one)[0]}` }, status(one)[1]) },
    ],
    items: planner.found.candidates,
  });
}

function detail(planner, candidate, { cluster, onReserved }) {
  const { placement, requests } = candidate;
  if (placement === null) return null;
  if (placement.status === "never") return h("p", {}, placement.reason);
  if (placement.status === "not_today") return inTheWay(placement);
  const link = typeof candidate.gpu === "string" ? exploreLink({ model: planner.body.model, gpu: candidate.gpu, workload: candidate.workload, layout: candidate.layout }) : null;
  const slurm = typeof requests?.slurm === "string" ? requests.slurm : null;
  return h(
    "div",
    { class: "stack" },
    h("p", {}, h("strong", {}, "Where: "), places(placement.nodes)),
    link !== null && h("p", {}, h("a", { href: link }, "See its memory, instant by instant")),
    placement.notes.map((note) => h("p", { class: "muted" }, note)),
    slurm !== null && h("details", {}, h("summary", {}, "Ask Slurm for it"), h("pre", { class: "code", tabindex: "0" }, slurm), copyButton("Copy", () => slurm)),
    reserveForm(cluster, placement, { onMade: onReserved }),
  );
}

function inTheWay(placement) {
  return h(
    "div",
    { class: "stack" },
    h("p", {}, `It needs ${count(placement.num_gpus)} GPUs; ${count(placement.free_gpus)} of ${count(placement.total_gpus)} are free.`, placement.possible_at !== null && [" Enough reservations will have ended ", whenElement(placement.possible_at), "."]),
    dataTable({
      caption: "Who is in the way",
      columns: [
        { label: "Holder", head: true, cell: (one) => one.holder ?? "not told" },
        { label: "Why", cell: (one) => one.hold },
        { label: "GPUs", number: true, cell: (one) => count(one.num_gpus) },
        { label: "Until", cell: (one) => whenElement(one.until) },
      ],
      items: placement.held,
    }),
  );
}

function alternatives(found) {
  if (found.alternatives.length < 2) return null;
  const table = dataTable({
    caption: "The best plan on each kind of GPU here",
    columns: [
      { label: "GPU", head: true, cell: (one) => one.gpu },
      { label: "Pool", cell: (one) => one.pool ?? "" },
      { label: "GPUs", number: true, cell: (one) => count(one.num_gpus) },
      { label: "Step", number: true, cell: (one) => seconds(one.step_time_s) },
      { label: "Per hour", number: true, cell: (one) => usd(one.cost_per_hour) },
      { label: "Why not", cell: (one) => one.reason ?? "" },
    ],
    items: found.alternatives,
  });
  return h("details", { open: found.candidates.length === 0 }, h("summary", {}, "On each kind of GPU"), table);
}

function rejections(found) {
  if (found.rejected.length === 0) return null;
  const table = dataTable({
    caption: "Why fewer are not enough",
    columns: [
      { label: "GPUs", head: true, cell: (one) => `${one.num_gpus} × ${one.gpu}` },
      { label: "Reason", cell: (one) => one.reason },
    ],
    items: found.rejected,
  });
  return h("details", { open: found.candidates.length === 0 }, h("summary", {}, `Why fewer are not enough (${found.rejected.length})`), table);
}
