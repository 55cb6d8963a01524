// Reservations of a cluster: who is promised what until when; making one of a plan's placement, and releasing one.
import { ask, askWhole } from "../api.js";
import { fill, h, say } from "../dom.js";
import { count, whenElement } from "../format.js";
import { showProblem } from "../notice.js";
import { dataTable } from "../tables.js";

/** Show the reservations that live; `onChange()` is called after one was released. */
export function showReservations(element, cluster, reservations, { onChange }) {
  const trouble = h("div", { hidden: true });
  const release = async (one, button) => {
    button.disabled = true;
    const path = `/v1/clusters/${cluster}/reservations/${one.id}`;
    try {
      const { headers } = await askWhole(path);
      await ask(path, { method: "DELETE", headers: { "if-match": headers.get("etag") } });
      say(`Released what ${one.holder} held`);
      onChange();
    } catch (error) {
      button.disabled = false;
      showProblem(trouble, error);
    }
  };
  fill(
    element,
    h("h2", {}, "Reservations"),
    trouble,
    reservations.length === 0
      ? h("p", { class: "empty" }, "Nothing is reserved. Place a plan above and reserve it, or use ", h("code", {}, `headroom reservations add ${cluster} --holder me --gpus POOL=4 --for 4h`))
      : dataTable({
          caption: "What is promised, newest first; plans count it as used until it ends",
          columns: [
            { label: "Holder", head: true, cell: (one) => one.holder },
            { label: "GPUs", number: true, cell: (one) => count(one.num_gpus) },
            { label: "Where", cell: (one) => places(one.gpus) },
            { label: "Since", cell: (one) => whenElement(one.created_at) },
            { label: "Until", cell: (one) => whenElement(one.expires_at) },
            { label: "", cell: (one) => h("button", { type: "button", class: "quiet", "aria-label": `Release what ${one.holder} holds`, onclick: (event) => release(one, event.target) }, "Release") },
          ],
          items: reservations,
        }),
  );
}

/** Return a form that reserves a placement as it is; `onMade(reservation)` is called when it is promised. */
export function reserveForm(cluster, placement, { onMade }) {
  const trouble = h("div", { hidden: true });
  const holder = h("input", { name: "holder", required: true, placeholder: "team-vision", autocomplete: "off" });
  const hours = h("input", { name: "hours", type: "number", min: "0.1", max: "8760", step: "any", value: "4", required: true });
  const form = h(
    "form",
    { class: "row reserve" },
    h("label", { class: "field" }, h("span", { class: "field-label" }, "Reserve it for"), holder),
    h("label", { class: "field is-short" }, h("span", { class: "field-label" }, "Hours"), hours),
    h("button", { type: "submit" }, `Reserve ${placement.num_gpus} GPUs`),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    showProblem(trouble, null);
    const body = { holder: holder.value.trim(), placement, expires_in_s: Math.round(Number(hours.value) * 3600) };
    try {
      const made = await ask(`/v1/clusters/${cluster}/reservations`, { method: "POST", body });
      say(`Reserved ${made.num_gpus} GPUs for ${made.holder}`);
      onMade(made);
    } catch (error) {
      showProblem(trouble, error);
    }
  });
  return h("div", {}, form, trouble);
}

/** Say where GPUs are: "a02 (4), h02 (0, 1)". */
export function places(shares) {
  return shares.map((share) => `${share.node}${share.mig_profile === null ? "" : ` ${share.mig_profile}`} (${share.gpu_indices === null ? `${share.num_gpus} GPUs` : `GPU ${share.gpu_indices.join(", ")}`})`).join("; ");
}
