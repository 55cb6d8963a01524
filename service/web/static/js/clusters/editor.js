// Storing an inventory: pasted or from files, compared with what is stored, then sent whole.
import { ask, askWhole, latest } from "../api.js";
import { fill, h } from "../dom.js";
import { fileBox, textOf } from "../files.js";
import { showProblem } from "../notice.js";
import { clearRefusal } from "../refusals.js";
import { dataTable } from "../tables.js";
import { differences } from "./diff.js";
import { importFields, isOurs, showImport } from "./imports.js";
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
  const text = h("textarea", { id: "inventory", name: "content", rows: "10", spellcheck: "false", "aria-label": "Inventory as JSON, or what a scheduler prints", placeholder: EXAMPLE });
  const input = h("input", { type: "file", multiple: true, "aria-label": "Read it from files" });
  const list = h("ul", { class: "chips", hidden: true });
  const trouble = h("div", { hidden: true });
  const outcome = h("div", { class: "stack", "aria-live": "polite" });
  const more = importFields(name);
  const form = h(
    "form",
    { class: "stack", "aria-label": "Inventory", autocomplete: "off", novalidate: true },
    h("p", { class: "muted" }, "What your scheduler prints: ", h("code", {}, "kubectl get nodes,pods -A -o json"), ", ", h("code", {}, "scontrol show nodes --json"), ", ", h("code", {}, "nvidia-smi -q -x"), " and others; or an object with ", h("code", {}, "name"), " and ", h("code", {}, "pools"), ", as ", h("a", { href: "/docs" }, "the API"), " takes it. Nothing is stored before you have seen what changes."),
    h("div", { class: "field" }, text),
    h("div", { class: "field" }, input, list),
    more,
    h("div", { class: "row" }, h("button", { type: "submit" }, "Show what would change")),
    trouble,
  );
  const files = fileBox({ zone: element, input, list });
  const compare = latest(async () => {
    const contents = [text.value, ...(await Promise.all(files.get().map(textOf)))].filter((one) => one === null || one.trim() !== "");
    clearRefusal(form, trouble);
    fill(outcome);
    if (contents.length > 0 && !contents.some(isOurs)) {
      await showImport({ form, trouble, outcome, name, contents, compare });
      return;
    }
    const read = contents.length > 1 ? { problem: "An inventory of our own words is one text or one file." } : inventoryIn(contents[0] ?? "", name);
    if (read.problem !== undefined) fill(outcome, h("p", { class: "notice is-bad" }, read.problem));
    else await showChanges(outcome, read);
  });
  form.addEventListener("submit", (event) => (event.preventDefault(), compare()));
  fill(element, form, outcome);
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
