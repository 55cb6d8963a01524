// Bringing a model: by its files, of which headers alone are sent, or by its id on a hub where the server may ask one.
import { ask } from "../api.js";
import { byId } from "../dom.js";
import { fileBox } from "../files.js";
import { clearRefusal, showRefusal } from "../refusals.js";
import { sourceOf, Unreadable } from "./source.js";

const FIELDS = { hub: "hub", revision: "revision", file: "revision", name: "name", "Hub-Token": "token" };

/** Make the form work: `onStored(model)` is called with what was stored. */
export function makeBringing(onStored) {
  const form = byId("bring");
  const trouble = byId("bring-trouble");
  const { hub, revision, token, name } = form.elements;
  const suggestName = (text) => {
    if (!name.dataset.typed) name.value = text.toLowerCase().replace(/[^a-z0-9._-]+/g, "-").replace(/^[^a-z0-9]+/, "").slice(0, 63);
  };
  const files = fileBox({
    zone: byId("bring-panel"),
    input: byId("bring-files"),
    list: byId("bring-list"),
    onChange: (all) => {
      if (all.length > 0) byId("bring-panel").open = true;
      const file = all.find((one) => /\.gguf$/i.test(one.name));
      if (file !== undefined) suggestName(file.name.replace(/(-\d{5}-of-\d{5})?\.gguf$/i, ""));
    },
  });
  name.addEventListener("input", () => (name.dataset.typed = name.value === "" ? "" : "yes"));
  hub.addEventListener("input", () => suggestName(hub.value.trim().split("/").at(-1)));
  const control = (field) => form.elements.namedItem(FIELDS[field.split(".").at(-1)] ?? (field === "files" || field.startsWith("source") || field.startsWith("model") ? "files" : ""));

  async function source() {
    const repository = hub.value.trim();
    if (repository === "") return sourceOf(files.get());
    if (files.get().length > 0) throw new Unreadable("A model is brought once: by its files or by its id on the hub.");
    const [version, file] = revision.value.trim().split("#");
    return { hub: repository, ...(version && { revision: version }), ...(file && { file }) };
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    clearRefusal(form, trouble);
    try {
      const secret = token.value.trim();
      const headers = secret === "" ? {} : { "hub-token": secret };
      const model = await ask("/v1/models", { method: "POST", body: { name: name.value.trim(), source: await source() }, headers });
      form.reset();
      delete name.dataset.typed;
      files.clear();
      onStored(model);
    } catch (error) {
      showRefusal(form, trouble, error, control);
    }
  });
}
