// What was learnt, whether it still holds, and measuring it again.
import { ask } from "../api.js";
import { fill, h, say } from "../dom.js";
import { count, percent, signedPercent, whenElement, words } from "../format.js";
import { showProblem } from "../notice.js";
import { dataTable } from "../tables.js";

const PAGE = 25;
const KEPT = {
  "": (one, newest) => newest.has(one),
  drifting: (one, newest) => newest.has(one) && one.drift.drifting,
  stale: (one, newest) => newest.has(one) && one.drift.stale,
  all: () => true,
};

/** Keep a list of calibrations in `element`; `only()` is "" for those that hold, or a word of `KEPT`. Returns `{ more(), draw(), items }`. */
export function makeCalibrations(element, { only }) {
  const list = { items: [], next: null };
  const outcome = h("div", { "aria-live": "polite" });
  const body = h("div", {});
  fill(element, outcome, body);

  async function remeasure(one, button) {
    button.disabled = true;
    try {
      const { measurements } = await ask(`/v1/calibrations/${one.id}/remeasure`, { method: "POST" });
      say(`Asked for ${measurements.length} measurements`);
      fill(outcome, h("p", { class: "notice is-good" }, `Asked again for ${measurements.length} size${measurements.length === 1 ? "" : "s"}: `, measurements.map((id, index) => [index > 0 && ", ", h("a", { href: `/measurements/${id}` }, id.slice(0, 8))])));
    } catch (error) {
      showProblem(outcome, error);
    } finally {
      button.disabled = false;
    }
  }

  function draw() {
    const newest = newestOf(list.items);
    const items = list.items.filter((one) => KEPT[only()](one, newest));
    fill(
      body,
      items.length === 0
        ? h("p", { class: "empty" }, list.items.length === 0 ? "Nothing was learnt yet: measurements that succeed teach." : "None of those that are loaded is like this.")
        : dataTable({ caption: `Calibrations, newest first: ${count(items.length)}${list.next === null ? "" : " so far"}`, columns: columns(remeasure, newest), items }),
      list.next !== null && h("button", { type: "button", onclick: () => more() }, "Show more"),
    );
  }

  async function more() {
    try {
      const page = await ask(`/v1/calibrations?limit=${PAGE}${list.next === null ? "" : `&cursor=${encodeURIComponent(list.next)}`}`);
      list.items.push(...page.items);
      list.next = page.next_cursor;
      draw();
    } catch (error) {
      showProblem(outcome, error);
    }
  }

  list.draw = draw;
  list.more = more;
  return list;
}

/** What keys have in common, which answers for those that nobody measured. */
export function poolTable(pools) {
  return dataTable({
    caption: "What keys have in common: it answers for those that nobody measured",
    columns: [
      { label: "Pool", head: true, cell: (one) => [words(one.kind), ", ", one.quantity.replaceAll("_", " "), one.family === null ? "" : ` · ${one.family}`] },
      { label: "Of", cell: (one) => one.level },
      { label: "Environment", cell: (one) => one.environment },
      { label: "Keys", number: true, cell: (one) => count(one.keys) },
      { label: "Measurements", number: true, cell: (one) => count(one.measurements) },
      { label: "Adds", number: true, cell: (one) => Object.entries(one.shares).map(([name, share]) => `${name.replaceAll("_", " ")} ${signedPercent(share, 2)}`).join(", ") },
      { label: "± of a new key", number: true, cell: (one) => percent(one.half_width, 2) },
      { label: "± of new sizes", number: true, cell: (one) => percent(one.key_half_width, 2) },
    ],
    items: pools,
  });
}

/** The newest of a key and quantity holds; the list has the newest first. */
function newestOf(items) {
  const found = new Map();
  for (const one of items) if (!found.has(`${one.key} ${one.quantity} ${one.environment}`)) found.set(`${one.key} ${one.quantity} ${one.environment}`, one);
  return new Set(found.values());
}

function columns(remeasure, newest) {
  return [
    { label: "Learnt of", head: true, cell: (one) => `${words(one.kind)}, ${one.quantity.replaceAll("_", " ")}` },
    { label: "Family", cell: (one) => one.family },
    { label: "Where", cell: (one) => one.environment },
    { label: "Rests on", cell: (one) => evidence(one.evidence) },
    { label: "Holds", cell: (one) => (newest.has(one) ? holds(one.drift) : h("span", { class: "tag" }, "superseded")) },
    { label: "Off", number: true, title: "Mean of measured / analytic answer - 1 where it was learnt, and where workers run now", cell: (one) => [signedPercent(one.drift.bias, 2), one.drift.current_bias === null || one.drift.current_bias === one.drift.bias ? "" : ` → ${signedPercent(one.drift.current_bias, 2)}`] },
    { label: "Learnt", cell: (one) => whenElement(one.created_at) },
    { label: "", cell: (one) => h("button", { type: "button", class: "quiet", "aria-label": `Measure again what ${one.family} ${one.kind} rests on`, onclick: (event) => remeasure(one, event.target) }, "Measure again") },
  ];
}

function evidence(ids) {
  const [first, ...others] = ids;
  if (first === undefined) return "nothing of here";
  return [h("a", { href: `/measurements/${first}` }, first.slice(0, 8)), others.length > 0 && h("span", { class: "muted" }, ` and ${others.length} more`)];
}

function holds({ stale, drifting, measured, outside, current_environment: current }) {
  const title = `${outside} of ${measured} newer measurements lay outside of what was promised; workers run ${current}`;
  if (drifting) return h("span", { class: "tag is-bad", title }, "drifting");
  if (stale) return h("span", { class: "tag is-warn", title }, "stale");
  return h("span", { class: "tag is-good", title }, "holds");
}
