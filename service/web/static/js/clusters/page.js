// The page of clusters: all of them, or the one that the address names.
import { ask, askAll } from "../api.js";
import { byId, fill, h } from "../dom.js";
import { exportBar, markdown } from "../export.js";
import { count, whenElement } from "../format.js";
import { showProblem } from "../notice.js";
import { repeat } from "../polling.js";
import { fillForm, formState, nameInPath, onNavigate, readQuery, writeQuery } from "../state.js";
import { suggest } from "../suggestions.js";
import { showTask, visibleState } from "../workloads.js";
import { makeEditor } from "./editor.js";
import { showList } from "./list.js";
import { nodeWords, totals } from "./nodes.js";
import { makePlanner, marksOf, planMarkdown } from "./plan.js";
import { makePool, stateBar } from "./pool.js";
import { foresee, foreseenWords, listWords } from "./range.js";
import { showReservations } from "./reservations.js";

const REFRESH_MS = 20_000;
const FIRST = 50;
const name = nameInPath();
const trouble = byId("trouble");

/** Run `f`, and show what the API refused. */
async function guarded(f) {
  try {
    showProblem(trouble, null);
    await f();
  } catch (error) {
    showProblem(trouble, error);
  }
}

async function showAll() {
  byId("one").hidden = true;
  makeEditor(byId("editor"), null);
  const form = byId("range");
  const onDrawn = (recent, all) => {
    const { last } = formState(form);
    form.hidden = all.length === 0;
    byId("range-words").textContent = last ? listWords(last, recent.length, all.length) : "";
  };
  const read = () => showList(byId("all"), byId("tools"), { hours: formState(form).last, onDrawn });
  fillForm(form, readQuery());
  const list = await read();
  const { clusters } = list;
  form.addEventListener("change", () => {
    list.draw(formState(form).last);
    writeQuery({ ...readQuery(), last: null, ...formState(form) }, { push: true });
  });
  onNavigate((state) => {
    fillForm(form, state);
    list.draw(formState(form).last);
  });
  setTimeout(repeat, REFRESH_MS, async () => byId("all").contains(document.activeElement) || list.clusters.length > FIRST || Object.assign(list, await read()), REFRESH_MS, (error) => showProblem(trouble, error), () => showProblem(trouble, null));
  const { model } = readQuery();
  const where = byId("place-where");
  where.hidden = model === undefined;
  // A question that came along is placed where there is no choice.
  if (model !== undefined && clusters.length === 1) location.replace(`/clusters/${clusters[0].name}${location.search}`);
  fill(where, clusters.length === 0 ? "Store a cluster first: the plan is searched on its free GPUs." : `Choose the cluster on which to place ${model || "your model"}.`);
  byId("store").open = clusters.length === 0;
}

async function showOne() {
  const form = byId("question");
  const ahead = byId("ahead");
  const pools = new Map();
  const page = { cluster: null, reservations: [], told: "" };
  const planner = makePlanner({ form, answer: byId("answer"), trouble: byId("refusal"), cluster: name, onPick: mark, onReserved: () => guarded(refresh) });

  function mark(placement, picked = planner.picked) {
    const marks = marksOf(placement, [...pools.values()].map((pool) => ({ name: pool.pool.name, nodes: pool.nodes })));
    // Where a plan is shown, what it leaves alone steps back.
    for (const [pool, panel] of pools) panel.mark(marks.get(pool) ?? (marks.size > 0 ? new Map([["", new Map()]]) : new Map()));
    writeQuery({ ...readQuery(), pick: picked > 0 ? picked : null });
  }

  async function refresh() {
    const [cluster, reservations] = await Promise.all([ask(`/v1/clusters/${encodeURIComponent(name)}`), askAll(`/v1/clusters/${encodeURIComponent(name)}/reservations`)]);
    const told = JSON.stringify([cluster, reservations]);
    if (told === page.told) return;
    Object.assign(page, { cluster, reservations, told });
    byId("updated").replaceChildren("updated ", whenElement(cluster.updated_at));
    draw();
    showReservations(byId("reservations"), name, reservations, { onChange: () => guarded(refresh) });
    if (planner.found !== null) planner.draw();
  }

  /** Draw what the time range foresees: all that is read now, but for the reservations that end in it. */
  function draw() {
    const { within } = formState(ahead);
    const foreseen = foresee(page.cluster.pools, page.reservations, within);
    const sum = totals(foreseen.pools);
    fill(byId("sum"), h("h2", {}, `${count(sum.all)} GPUs`), stateBar(sum));
    byId("ahead-words").textContent = foreseenWords(within, foreseen, page.cluster.pools);
    showPools(foreseen.pools, foreseen.reservations);
  }

  function showPools(all, reservations) {
    for (const pool of all) {
      if (!pools.has(pool.name)) {
        pools.set(pool.name, makePool());
        byId("pools").append(pools.get(pool.name).element);
      }
      pools.get(pool.name).show(pool, reservations);
    }
    for (const [gone, panel] of pools) {
      if (all.some((pool) => pool.name === gone)) continue;
      panel.element.remove();
      pools.delete(gone);
    }
  }

  function stateNow() {
    showTask(form);
    return visibleState(form, formState(form));
  }

  function askPlan(picked) {
    const state = stateNow();
    if (state.model) planner.ask(state, picked);
  }

  byId("title").textContent = name;
  document.title = `${name} · Clusters · Headroom`;
  byId("all").hidden = true;
  makeEditor(byId("editor"), name);
  form.addEventListener("change", () => showTask(form));
  ahead.addEventListener("submit", (event) => event.preventDefault());
  ahead.addEventListener("change", () => {
    draw();
    writeQuery({ ...readQuery(), within: null, ...formState(ahead) }, { push: true });
    mark(null, 0);
    if (planner.found !== null) planner.draw();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    writeQuery({ ...stateNow(), ...formState(ahead) }, { push: true });
    askPlan(0);
  });
  const fromAddress = (state) => {
    fillForm(form, state);
    fillForm(ahead, state);
    if (page.cluster !== null) draw();
    askPlan(Number(state.pick ?? 0));
  };
  onNavigate(fromAddress);
  fill(byId("tools"), exports(page, pools, planner));
  await refresh();
  byId("one").hidden = false;
  for (const panel of pools.values()) panel.mark(new Map());
  fromAddress(readQuery());
  suggest();
  repeat(refresh, REFRESH_MS, (error) => showProblem(trouble, error), () => showProblem(trouble, null));
}

function exports(page, pools, planner) {
  const rows = () =>
    [...pools.values()].flatMap(({ pool, nodes }) =>
      nodes.map((node) => {
        const number = (state) => node.cells.filter((cell) => cell.state === state).length;
        return [pool.name, node.name, node.state, pool.gpu, node.cells.length, ...["free", "used", "reserved", "sliced", "drained"].map(number), node.source ?? "", node.seenAt ?? ""];
      }),
    );
  return exportBar({
    name: `cluster-${name}`,
    csv: () => ({ columns: ["pool", "node", "state", "gpu", "gpus", "free", "used", "reserved", "sliced", "drained", "source", "observed_at"], rows: rows() }),
    json: () => ({ cluster: page.cluster, reservations: page.reservations, plan: planner.found }),
    png: () => pictureOf([...pools.values()]),
    markdown: () => {
      const free = [...pools.values()].map(({ pool, nodes }) => markdown`- ${pool.name} (${pool.gpu}): ${pool.free_gpus} of ${pool.total_gpus} free${nodes.length <= 4 ? `; ${nodes.map(nodeWords).join("; ")}` : ""}`);
      return [markdown`**Cluster ${name}**`, "", ...free, "", planMarkdown(planner, name), "", location.href].join("\n");
    },
  });
}

/** Return the pictures of all pools below each other as one PNG. */
function pictureOf(panels) {
  const gap = 24;
  const drawn = panels.map((panel) => panel.canvas);
  const whole = h("canvas", {});
  whole.width = Math.max(...drawn.map((one) => one.width)) + 2 * gap;
  whole.height = drawn.reduce((total, one) => total + one.height + gap, gap);
  const pen = whole.getContext("2d");
  pen.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--surface");
  pen.fillRect(0, 0, whole.width, whole.height);
  let y = gap;
  for (const one of drawn) {
    pen.drawImage(one, gap, y);
    y += one.height + gap;
  }
  return whole.toDataURL("image/png");
}

guarded(name ? showOne : showAll);
