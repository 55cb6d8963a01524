// What a launch was read as: what it leaves open as fields, what counts, what has no effect, what is ignored.
import { ask } from "../api.js";
import { fill, h, say } from "../dom.js";
import { words } from "../format.js";
import { clearRefusal, showRefusal } from "../refusals.js";
import { dataTable } from "../tables.js";
import { gpuText, gpuValue, lostWords, valueAt } from "./question.js";

/** Return the panel in `element`: `read(sources, model, signal)` sends a launch, `clear()` takes it back. */
export function launchPanel(element, { form, onQuestion }) {
  const state = { sources: null, said: {}, fields: new Map() };
  const head = h("div", { class: "stack is-tight-stack" });
  const open = h("form", { class: "stack is-tight-stack", "aria-label": "What the launch leaves open", autocomplete: "off", onsubmit: (event) => event.preventDefault() });
  const inputs = h("div", { class: "open-fields" });
  const trouble = h("div", { hidden: true });
  const rest = h("div", { class: "stack is-tight-stack" });
  fill(open, h("h3", {}, "The launch leaves open"), inputs, trouble);
  fill(element, head, open, rest);

  async function send(signal) {
    const answer = await ask("/v1/launches/import", { method: "POST", body: { ...state.sources, ...bodyOf(state.said) }, signal });
    const question = complete(answer, form);
    showOpen(answer, question);
    element.hidden = false;
    onQuestion(question);
    const lost = lostWords(form, question);
    fill(head, headOf(answer), lost.length > 0 && h("p", { class: "notice is-warn" }, `This page has no field for ${lost.join(", ")}: the answer below is without.`), notices(answer));
    fill(rest, accounts(answer));
    say(`Read as ${words(answer.launcher)}`);
  }

  function showOpen(answer, question) {
    const asked = new Map(answer.questions.map((one) => [one.field, one]));
    for (const [field, box] of state.fields) {
      if (asked.has(field) || field in state.said) continue;
      box.remove();
      state.fields.delete(field);
    }
    for (const one of asked.values()) {
      if (state.fields.has(one.field)) continue;
      const box = fieldOf(one, valueAt(question, one.field), change);
      state.fields.set(one.field, box);
      inputs.append(box);
    }
    open.hidden = state.fields.size === 0;
  }

  async function change(field, value) {
    if (value === "") delete state.said[field];
    else state.said[field] = value;
    clearRefusal(open, trouble);
    try {
      await send();
    } catch (error) {
      showRefusal(open, trouble, error, (name) => open.elements.namedItem(name));
    }
  }

  return {
    async read(sources, model, signal) {
      Object.assign(state, { sources, said: model === null ? {} : { model }, fields: new Map() });
      fill(inputs);
      await send(signal);
    },
    clear() {
      element.hidden = true;
      clearRefusal(open, trouble);
    },
  };
}

/** The question with what is still missing as the form has it. */
function complete({ question, missing }, form) {
  const whole = structuredClone(question);
  whole.gpu ??= gpuValue(form.elements.gpu.value);
  for (const field of missing) {
    const [root, name] = field.split(".");
    const control = form.elements.namedItem(field);
    if (name !== undefined && control !== null && control.defaultValue) whole[root][name] = Number(control.defaultValue);
  }
  return whole;
}

/** The part of a request that answers what was asked. */
function bodyOf(said) {
  const body = {};
  for (const [field, value] of Object.entries(said)) {
    const [root, ...path] = field.split(".");
    if (path.length === 0) body[root] = root === "gpu" && typeof value === "string" ? gpuValue(value) : value;
    else place((body[root] ??= {}), path, value);
  }
  return body;
}

function place(target, path, value) {
  const last = path.pop();
  let inner = target;
  for (const step of path) inner = inner[step] ??= {};
  inner[last] = value;
}

function fieldOf({ field, why, choices }, value, onChange) {
  const id = `open-${field.replaceAll(".", "-")}`;
  const shown = value === undefined ? "" : field === "gpu" ? gpuText(value) : typeof value === "object" ? JSON.stringify(value) : String(value);
  const input =
    choices.length > 0
      ? h("select", { id, name: field, "aria-describedby": `${id}-why`, onchange: ({ target }) => onChange(field, choices.find((one) => String(one) === target.value) ?? "") }, shown === "" && h("option", { value: "", selected: true }, "choose"), choices.map((one) => h("option", { value: String(one), selected: String(one) === shown }, String(one))))
      : h("input", { id, name: field, value: shown, "aria-describedby": `${id}-why`, spellcheck: "false", onchange: ({ target }) => onChange(field, readText(target.value)) });
  return h("div", { class: "field" }, h("label", { class: "field-label", for: id, title: field }, words(field.split(".").at(-1))), input, h("span", { class: "muted small", id: `${id}-why` }, why));
}

function readText(text) {
  const bare = text.trim();
  if (bare === "" || !isFinite(bare)) return bare;
  return Number(bare);
}

function headOf({ launcher, versions, read, without_effect: idle, ignored }) {
  const releases = Object.entries(versions).map(([name, version]) => `${name} ${version}`).join(", ");
  const said = read.filter((one) => !isDefault(one));
  const parts = [`${said.length} settings count`, `${read.length - said.length} defaults`, `${idle.length} without effect`, `${ignored.length} ignored`];
  return h("div", {}, h("h2", {}, `Read as ${launcher}`), h("p", { class: "muted" }, `${parts.join(" · ")}${releases && `; keys and defaults of ${releases}`}. The form below has it, and is yours to change.`));
}

function notices({ warnings, ignored }) {
  // A warning says why a setting is ignored; what none speaks of is named at least.
  const unexplained = ignored.filter((key) => !warnings.some((text) => text.includes(`${key} `)));
  return [
    warnings.length > 0 && h("div", { class: "notice is-warn" }, h("ul", { class: "plain" }, warnings.map((text) => h("li", {}, text)))),
    unexplained.length > 0 && h("div", { class: "notice is-warn" }, h("p", {}, "Ignored, though it may count: ", unexplained.map((key) => [h("code", {}, key), " "]))),
  ];
}

function accounts({ read, without_effect: idle }) {
  const caption = "What was read: your settings first, then the release's defaults";
  return [
    h(
      "details",
      {},
      h("summary", {}, `What was read (${read.length})`),
      dataTable({
        caption,
        columns: [
          { label: "Setting", head: true, cell: (one) => h("code", {}, one.key) },
          { label: "Value", cell: (one) => h("code", {}, valueText(one.value)) },
          { label: "Became", cell: (one) => one.as },
          { label: "Where", cell: (one) => h("span", { class: "muted" }, one.where) },
        ],
        items: [...read.filter((one) => !isDefault(one)), ...read.filter(isDefault)],
      }),
    ),
    idle.length > 0 && h("details", {}, h("summary", {}, `Without effect on memory and time (${idle.length})`), h("ul", { class: "chips" }, idle.map((key) => h("li", {}, h("code", {}, key))))),
  ];
}

function isDefault({ where }) {
  return where.startsWith("default");
}

function valueText(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}

