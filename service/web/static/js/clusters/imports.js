// What a scheduler prints as a cluster: a dry run says what would change, then it is stored by the version that was seen.
import { askWhole } from "../api.js";
import { fill, h } from "../dom.js";
import { count, gib, whenElement, words } from "../format.js";
import { emptyNote } from "../notice.js";
import { showRefusal } from "../refusals.js";
import { dataTable, facts } from "../tables.js";

const SHOWN = 200;
const MEMORY = /^\d+(\.\d+)?(Ki|Mi|Gi|Ti)$/;
const SCOPES = [["", "those of the same tool"], ["named", "none: stored nodes stay"], ["cluster", "all: this is all there is"]];

/** Tell whether a text is an inventory in our own words, or none that any tool prints. */
export function isOurs(text) {
  if (text === null) return false;
  const start = text.trimStart()[0];
  if (start !== "{") return start === undefined;
  try {
    const read = JSON.parse(text);
    return "pools" in read || ("name" in read && !("kind" in read) && !("nodes" in read));
  } catch (error) {
    // What no JSON is, is told by the side that says where.
    if (error instanceof SyntaxError) return true;
    throw error;
  }
}

/** Fields that say what the output itself does not; `cluster` is the one that the page is of, or null. */
export function importFields(cluster) {
  const field = (label, control) => h("label", { class: "field is-wide" }, h("span", { class: "field-label" }, label), control);
  return h(
    "div",
    { class: "stack" },
    cluster === null && h("div", { class: "inline-form" }, field("Name of the cluster", h("input", { name: "cluster", placeholder: "prod-a", spellcheck: "false" }))),
    h(
      "details",
      {},
      h("summary", {}, "What the output does not say"),
      h(
        "div",
        { class: "inline-form" },
        field("Node of nvidia-smi's output", h("input", { name: "node", placeholder: "n1", spellcheck: "false" })),
        field("Taints that jobs tolerate", h("input", { name: "tolerates", placeholder: "dedicated, spot", spellcheck: "false" })),
        field("Stored nodes that it lacks go", h("select", { name: "scope" }, SCOPES.map(([value, text]) => h("option", { value }, text)))),
      ),
    ),
    h("div", { class: "inline-form", "data-part": "gpus", hidden: true }),
  );
}

/** Ask what would change, and show it with a button that stores it; `compare()` asks again. */
export async function showImport({ form, trouble, outcome, name, contents, compare }) {
  const cluster = name ?? form.elements.cluster.value.trim();
  const fields = (path) => form.elements.namedItem(path.startsWith("gpus.") ? path : path.split(".")[0].replace("also", "content").replace("name", "cluster"));
  const send = (apply, headers = {}) => askWhole(`/v1/clusters/${encodeURIComponent(cluster)}/import`, { method: "POST", body: { ...bodyOf(form, contents), apply }, headers });
  if (cluster === "") {
    fill(outcome, h("p", { class: "notice is-bad", role: "alert" }, "Say which cluster this is: the output of a scheduler has no name."));
    form.elements.cluster.focus();
    return;
  }
  try {
    const { value: dry, headers } = await send(false);
    const etag = headers.get("etag");
    const store = async () => {
      try {
        await send(true, etag === null ? {} : { "if-match": etag });
        location.assign(`/clusters/${encodeURIComponent(cluster)}`);
      } catch (error) {
        showRefusal(form, trouble, error, fields);
        trouble.scrollIntoView({ block: "nearest" });
      }
    };
    offerGpus(form.querySelector("[data-part=gpus]"), dry.unknown_gpus, compare);
    fill(outcome, summary(dry), notices(dry), changes(dry), h("div", { class: "row" }, h("button", { type: "button", class: "primary", onclick: store }, etag === null ? `Store ${cluster}` : `Bring ${cluster} up to date`)));
  } catch (error) {
    showRefusal(form, trouble, error, fields);
  }
}

function bodyOf(form, [content, ...also]) {
  const { node, tolerates, scope } = form.elements;
  const gpus = Object.fromEntries([...form.querySelectorAll("[data-gpu]")].filter((one) => one.value.trim() !== "").map((one) => [one.dataset.gpu, gpuOf(one.value.trim())]));
  const keys = tolerates.value.split(",").map((key) => key.trim()).filter(Boolean);
  return {
    content,
    ...(also.length > 0 && { also }),
    ...(node.value.trim() && { node: node.value.trim() }),
    ...(scope.value && { scope: scope.value }),
    ...(keys.length > 0 && { tolerates: keys }),
    ...(Object.keys(gpus).length > 0 && { gpus }),
  };
}

function gpuOf(text) {
  return MEMORY.test(text) ? { memory_bytes: text } : text;
}

/** Fields for GPUs that nobody knows by the tool's name; those that were told before stay. */
function offerGpus(element, unknown, compare) {
  for (const one of element.querySelectorAll("[data-gpu]")) if (one.value.trim() === "") one.closest(".field").remove();
  for (const { name, num_gpus: number, memory_bytes: bytes, candidates } of unknown) {
    if ([...element.querySelectorAll("[data-gpu]")].some((one) => one.dataset.gpu === name)) continue;
    const id = `gpu-${name.replaceAll(/[^\w-]/g, "-")}`;
    const memory = bytes === null ? "nobody knows its memory" : `${gib(bytes)} as the tool states`;
    const why = `${count(number)} of them; ${candidates.length > 0 ? `one of ${candidates.join(", ")}?` : memory}`;
    element.append(
      h(
        "div",
        { class: "field is-wide" },
        h("label", { class: "field-label", for: id }, `${name} is, by name or memory`),
        h("input", { id, name: `gpus.${name}`, data: { gpu: name }, placeholder: candidates[0] ?? "24Gi", list: `${id}-names`, "aria-describedby": `${id}-why`, spellcheck: "false", onchange: () => compare() }),
        h("datalist", { id: `${id}-names` }, candidates.map((one) => h("option", { value: one }))),
        h("span", { class: "muted", id: `${id}-why` }, why),
      ),
    );
  }
  element.hidden = element.children.length === 0;
}

function summary({ source, before, after, observed_at: at, num_added: added, num_removed: removed, num_changed: changed, created }) {
  const size = ({ nodes, gpus, free_gpus: free }) => `${count(nodes)} nodes, ${count(gpus)} GPUs, ${count(free)} free`;
  return facts([
    ["Told by", source],
    ["Seen", whenElement(at)],
    ["Now", before.nodes === 0 || created ? null : size(before)],
    ["Then", size(after)],
    ["Nodes", `${count(added)} added, ${count(changed)} changed, ${count(removed)} removed`],
  ]);
}

function notices({ warnings, left_out: left }) {
  return [
    warnings.map((text) => h("p", { class: "notice is-warn" }, text)),
    left.length > 0 && h("details", {}, h("summary", {}, `Left out (${left.length})`), h("ul", {}, left.map((one) => h("li", {}, h("code", {}, one.what), `: ${one.reason}`)))),
  ];
}

function changes({ changes: all, num_changes: number }) {
  if (number === 0) return emptyNote("Nothing would change: the cluster is as the tool has it.");
  return dataTable({
    caption: all.length > SHOWN || number > all.length ? `What would change: the first ${Math.min(SHOWN, all.length)} of ${count(number)}` : "What would change",
    columns: [
      { label: "Pool or node", head: true, cell: (one) => [one.pool, one.node && ` / ${one.node}`] },
      { label: "GPU", cell: (one) => one.gpu },
      { label: "Change", cell: (one) => [h("span", { class: "tag" }, words(one.kind)), one.fields.map(({ name, before, after }) => h("div", {}, `${words(name)}: ${text(before)} → ${text(after)}`))] },
    ],
    items: all.slice(0, SHOWN),
  });
}

function text(value) {
  if (value === null || value === undefined) return "not told";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
