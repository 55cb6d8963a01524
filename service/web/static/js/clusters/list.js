// All clusters at a glance: what is free on each, largest pools first.
import { ask } from "../api.js";
import { fill, h } from "../dom.js";
import { exportBar, markdownTable } from "../export.js";
import { count, whenElement } from "../format.js";
import { totals } from "./nodes.js";
import { stateBar } from "./pool.js";
import { updatedIn } from "./range.js";

const COLUMNS = ["cluster", "pool", "gpu", "nodes", "gpus", "free", "used", "reserved", "sliced", "drained"];

/** Show the clusters of a time range in `element`, a page at a time: `{ clusters, draw(hours) }`, where `onDrawn(shown, all)` is called. */
export async function showList(element, tools, { hours = "", onDrawn = () => {} }) {
  const clusters = [];
  const shown = { hours, cursor: null };
  const read = async () => {
    const page = await ask(`/v1/clusters?nodes=false&limit=50${shown.cursor === null ? "" : `&cursor=${encodeURIComponent(shown.cursor)}`}`);
    clusters.push(...page.items);
    shown.cursor = page.next_cursor;
    draw(shown.hours);
  };
  const draw = (range) => {
    shown.hours = range;
    const recent = updatedIn(clusters, range);
    const more = shown.cursor !== null && h("button", { type: "button", onclick: read }, "Show more");
    if (clusters.length === 0) fill(element, nothing());
    else fill(element, h("div", { class: "cards" }, recent.map(card)), more);
    onDrawn(recent, clusters);
  };
  await read();
  if (clusters.length > 0) fill(tools, exports(() => updatedIn(clusters, shown.hours)));
  return { clusters, draw };
}

function card(cluster) {
  const found = totals(cluster.pools);
  return h(
    "article",
    { class: "panel card" },
    h("div", { class: "panel-head" }, h("h2", {}, h("a", { href: `/clusters/${cluster.name}${location.search}` }, cluster.name)), h("span", { class: "muted" }, "updated ", whenElement(cluster.updated_at))),
    h("p", { class: "card-free" }, h("strong", {}, count(found.free)), ` of ${count(found.all)} GPUs free`),
    stateBar(found),
    h(
      "ul",
      { class: "plain pools" },
      cluster.pools.map((pool) => h("li", {}, h("span", {}, pool.name, " ", h("span", { class: "muted" }, pool.gpu)), stateBar(totals([pool]), { legend: false }), h("span", { class: "number" }, `${count(pool.free_gpus)} / ${count(pool.total_gpus)}`))),
    ),
  );
}

function nothing() {
  return h(
    "div",
    { class: "panel empty-panel" },
    h("h2", {}, "No cluster is stored yet"),
    h("p", {}, "A cluster says which GPUs there are and who holds them, so that plans can say what would run today. Paste an inventory below, or send one:"),
    h("pre", { class: "code", tabindex: "0" }, "headroom clusters add prod-a --file inventory.json"),
  );
}

function exports(recent) {
  const rows = () =>
    recent().flatMap((cluster) =>
      cluster.pools.map((pool) => {
        const found = totals([pool]);
        return [cluster.name, pool.name, pool.gpu, pool.total_nodes, found.all, found.free, found.used, found.reserved, found.sliced, found.drained];
      }),
    );
  return exportBar({ name: "clusters", csv: () => ({ columns: COLUMNS, rows: rows() }), json: recent, markdown: () => `${markdownTable(COLUMNS, rows())}\n\n${location.href}\n` });
}
