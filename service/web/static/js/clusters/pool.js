// One pool: what it is, how much of it is free, the picture of its nodes, and the same as a table.
import { fill, h, say } from "../dom.js";
import { count, percent, size, usd, whenElement, words } from "../format.js";
import { dataTable, facts } from "../tables.js";
import { holdersOf, nodesOf, nodeWords, STATES, STATE_WORDS, totals } from "./nodes.js";
import { makePicture } from "./picture.js";

const SHOWN_NODES = 50;
const FEW_NODES = 40;

/** Return a bar of what GPUs are, each part as wide as its share, and under it the numbers. */
export function stateBar(found, { legend = true } = {}) {
  const parts = STATES.filter((state) => found[state] > 0);
  const said = parts.map((state) => `${count(found[state])} ${STATE_WORDS[state]}`).join(", ");
  const bar = h(
    "div",
    { class: "state-bar", role: "img", "aria-label": `${count(found.all)} GPUs: ${said}` },
    parts.map((state) => {
      const part = h("span", { class: `state is-${state}` });
      part.style.flexGrow = String(found[state]);
      return part;
    }),
  );
  if (!legend) return bar;
  const key = h(
    "ul",
    { class: "legend" },
    parts.map((state) =>
      h("li", {}, h("span", { class: `swatch state is-${state}`, "aria-hidden": "true" }), h("strong", {}, count(found[state])), ` ${STATE_WORDS[state]}`, h("span", { class: "muted" }, ` ${percent(found[state] / found.all, 0)}`)),
    ),
  );
  return h("div", {}, bar, key);
}

/** Return a panel of a pool: `{ element, show(pool, reservations), mark(marks), nodes, canvas }`. */
export function makePool() {
  const head = h("div", { class: "panel-head" });
  const bar = h("div", {});
  const frame = h("div", { class: "picture" });
  const picked = h("div", { class: "picked" });
  const filter = h("input", { type: "search", placeholder: "Name of a node", "aria-label": "Show nodes whose name contains" });
  const free = h("input", { type: "checkbox" });
  const table = h("div", {});
  const folded = h(
    "details",
    {},
    h("summary", {}, "Nodes as a table"),
    h("div", { class: "row filter" }, filter, h("label", { class: "row" }, free, "With a free GPU only")),
    table,
  );
  const panel = { element: h("section", { class: "panel pool" }, head, bar, frame, picked, folded), nodes: [], pool: null };
  const picture = makePicture(frame, { onPick: (node) => pick(picked, panel.pool, node) });
  panel.canvas = picture.canvas;
  const list = (most = SHOWN_NODES) => {
    if (folded.open && panel.pool !== null) showNodes(table, panel, { text: filter.value.trim(), onlyFree: free.checked, most, more: list });
  };
  folded.addEventListener("toggle", () => list());
  filter.addEventListener("input", () => list());
  free.addEventListener("change", () => list());
  panel.show = (pool, reservations) => {
    Object.assign(panel, { pool, nodes: nodesOf(pool, reservations) });
    panel.element.classList.toggle("is-large", pool.total_nodes > FEW_NODES);
    panel.element.setAttribute("aria-label", `Pool ${pool.name}`);
    fill(head, h("h2", {}, pool.name, " ", h("span", { class: "muted" }, pool.gpu)), poolFacts(pool));
    fill(bar, stateBar(totals([pool])));
    picture.show(pool, panel.nodes);
    list();
  };
  panel.mark = (marks) => panel.pool !== null && picture.show(panel.pool, panel.nodes, marks);
  return panel;
}

function poolFacts(pool) {
  const island = pool.nvlink_island_size;
  return facts([
    ["Nodes", `${count(pool.total_nodes)} × ${pool.gpus_per_node} GPUs`],
    ["NVLink island", island === null ? null : `${island} GPUs`],
    ["Host memory", pool.host_memory_bytes === null ? null : size(pool.host_memory_bytes)],
    ["NVMe", pool.nvme_bytes === null ? null : size(pool.nvme_bytes)],
    ["Price", pool.price_per_gpu_hour === null ? null : `${usd(pool.price_per_gpu_hour)} per GPU hour`],
  ]);
}

function pick(element, pool, node) {
  say(nodeWords(node));
  const free = node.slices.map((part) => `${part.free} of ${part.total} ${part.profile} free`);
  fill(
    element,
    h("h3", {}, node.name, node.state !== "ready" && h("span", { class: "tag is-warn" }, node.state)),
    h("p", {}, nodeWords(node)),
    free.length > 0 && h("p", {}, `MIG slices: ${free.join(", ")}`),
    holdersOf(node).map((one) => h("p", {}, h("strong", {}, one.holder ?? "nobody told who"), ` holds ${one.num}`, one.until ? [" until ", whenElement(one.until)] : "")),
    h("button", { type: "button", class: "quiet", onclick: () => fill(element) }, "Close"),
  );
}

function showNodes(element, panel, { text, onlyFree, most, more }) {
  const found = panel.nodes.filter((node) => node.name.includes(text) && (!onlyFree || node.free > 0));
  const number = (state) => (node) => count(node.cells.filter((cell) => cell.state === state).length);
  fill(
    element,
    dataTable({
      caption: `Pool ${panel.pool.name}: ${count(found.length)} of ${count(panel.nodes.length)} nodes`,
      columns: [
        { label: "Node", head: true, cell: (node) => node.name },
        { label: "State", cell: (node) => node.state },
        ...STATES.map((state) => ({ label: words(STATE_WORDS[state]), number: true, cell: number(state) })),
        { label: "Held by", cell: (node) => holdersOf(node).map((one) => `${one.holder ?? "not told"} (${one.num})`).join(", ") },
      ],
      items: found.slice(0, most),
    }),
    found.length > most && h("button", { type: "button", onclick: () => more(most + 200) }, `Show more of ${count(found.length)}`),
  );
}
