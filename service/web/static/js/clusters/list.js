// All clusters at a glance: what is free on each, largest pools first.
import { ask } from "../api.js";
import { fill, h } from "../dom.js";
import { exportBar, markdownTable } from "../export.js";
import { count, whenElement } from "../format.js";
import { totals } from "./nodes.js";
import { stateBar } from "./pool.js";

const COLUMNS = ["cluster", "pool", "gpu", "nodes", "gpus", "free", "used", "reserved", "sliced", "drained"];

/** Show every cluster in `element`, a page at a time; tells whether there is any. */
export async function showList(element, tools, { signal }) {
  const clusters = [];
  const cards = h("div", { class: "cards" });
  const more = h("div", {});
  fill(element, cards, more);
  const next = async (cursor) => {
    const page = await ask(`/v1/clusters?nodes=false&limit=50${cursor === null ? "" : `&cursor=${encodeURIComponent(cursor)}`}`, { signal });
    clusters.push(...page.items);
    cards.append(...page.items.map(card));
    fill(more, page.next_cursor !== null && h("button", { type: "button", onclick: () => next(page.next_cursor) }, "Show more"));
  };
  await next(null);
  if (clusters.length === 0) fill(element, nothing());
  else fill(tools, exports(clusters));
  return clusters;
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

function exports(clusters) {
  const rows = () =>
    clusters.flatMap((cluster) =>
      cluster.pools.map((pool) => {
        const found = totals([pool]);
        return [cluster.name, pool.name, pool.gpu, pool.total_nodes, found.all, found.free, found.used, found.reserved, found.sliced, found.drained];
      }),
    );
  return exportBar({ name: "clusters", csv: () => ({ columns: COLUMNS, rows: rows() }), json: () => clusters, markdown: () => `${markdownTable(COLUMNS, rows())}\n\n${location.href}\n` });
}
