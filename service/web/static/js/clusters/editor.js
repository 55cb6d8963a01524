// Storing an inventory: pasted or from a file, compared with what is stored, then sent whole.
import { ask, askWhole } from "../api.js";
import { fill, h } from "../dom.js";
import { showProblem } from "../notice.js";
import { dataTable } from "../tables.js";
import { differences } from "./diff.js";
import { inventoryIn } from "./inventory.js";

const SHOWN = 200;
const EXAMPLE = `{
  "name": "prod-a",
  "pools": [
    {"name": "a100", "gpu": "A100-SXM4-80GB", "gpus_per_node": 8, "nvlink_island_size": 8,
     "nodes": [{"name": "n1", "allocated_gpus": 3}, {"name": "n2", "state": "drained"}]}
  ]
}`;

/** Put the editor into `element`. `name` is the cluster that is replaced, or null where one is added. */
export function makeEditor(element, name) {
  const text = h("textarea", { rows: "10", spellcheck: "false", "aria-label": "Inventory as JSON", placeholder: EXAMPLE });
  const file = h("input", { type: "file", accept: "application/json,.json", "aria-label": "Read the inventory from a file" });
  const outcome = h("div", { "aria-live": "polite" });
  file.addEventListener("change", async () => {
    text.value = (await file.files[0]?.text()) ?? text.value;
  });
  const compare = async () => {
    const read = inventoryIn(text.value, name);
    if (read.problem !== undefined) fill(outcome, h("p", { class: "notice is-bad" }, read.problem));
    else await showChanges(outcome, read);
  };
  fill(
    element,
    h("p", { class: "muted" }, "An object with ", h("code", {}, "name"), " and ", h("code", {}, "pools"), ", as ", h("a", { href: "/docs" }, "the API"), " takes it. Nothing is stored before you have seen what changes."),
    text,
    h("div", { class: "row" }, file, h("button", { type: "button", onclick: compare }, "Show what would change")),
    outcome,
  );
}

async function showChanges(outcome, { name, pools }) {
  const trouble = h("div", { hidden: true });
  try {
    const stored = await askWhole(`/v1/clusters/${encodeURIComponent(name)}`).catch((error) => {
      if (error.status === 404) return null;
      throw error;
    });
    const changes = differences(stored?.value.pools ?? [], pools);
    const send = async () => {
      showProblem(trouble, null);
      try {
        if (stored === null) await ask("/v1/clusters", { method: "POST", body: { name, pools } });
        else await ask(`/v1/clusters/${encodeURIComponent(name)}`, { method: "PUT", body: { pools }, headers: { "if-match": stored.headers.get("etag") } });
        location.assign(`/clusters/${encodeURIComponent(name)}`);
      } catch (error) {
        showProblem(trouble, error);
      }
    };
    fill(
      outcome,
      changes.length === 0 ? h("p", { class: "notice" }, `Nothing would change of ${name}.`) : changeTable(changes, `${stored === null ? "A new cluster" : "What would change of"} ${name}`),
      h("button", { type: "button", class: "primary", onclick: send }, stored === null ? `Store ${name}` : `Replace ${name}`),
      trouble,
    );
  } catch (error) {
    fill(outcome, trouble);
    showProblem(trouble, error);
  }
}

function changeTable(changes, caption) {
  return dataTable({
    caption: changes.length > SHOWN ? `${caption}: the first ${SHOWN} of ${changes.length} changes` : caption,
    columns: [
      { label: "What", head: true, cell: (one) => one.what },
      { label: "Change", cell: (one) => one.change },
    ],
    items: changes.slice(0, SHOWN),
  });
}
