// Models: what the catalogue knows, what is stored, and which families are modelled for what.
import { ask, askAll, latest } from "../api.js";
import { byId, debounced, fill, h } from "../dom.js";
import { count, gib, percent, short, words } from "../format.js";
import { showProblem } from "../notice.js";
import { onNavigate, readQuery, writeQuery } from "../state.js";
import { suggest } from "../suggestions.js";
import { dataTable, facts } from "../tables.js";
import { makeBringing } from "./bring.js";

const HUB = /^https?:\/\/(?:www\.)?(?:huggingface\.co|hf\.co)\/([^/?#]+\/[^/?#]+)/i;
// A model that is being recorded is looked at again until it is ready.
const RECORDING_PAUSE_MS = 3000;
const form = byId("look-up");
const filter = byId("family-filter");
let families = [];
let recorded = new Map();
const again = debounced(lookAgain, RECORDING_PAUSE_MS);
// Whoever looks up another model does not wait for the one before.
const read = latest((signal, name) => ask(`/v1/models/${name.split("/").map(encodeURIComponent).join("/")}`, { signal }));

/** The name that a text means: of an address on the Hub its id. */
function nameOf(text) {
  return HUB.exec(text.trim())?.[1] ?? text.trim();
}

async function lookUp(state) {
  again.cancel();
  form.elements.model.value = state.model ?? "";
  const name = nameOf(state.model ?? "");
  const place = byId("found");
  showProblem(byId("trouble"), null);
  place.hidden = true;
  read.stop();
  if (name === "") return;
  try {
    const model = await read(name);
    if (model === undefined) return;
    showModel(model);
    document.title = `${model.name} · Models · Headroom`;
  } catch (error) {
    showProblem(byId("trouble"), error);
  }
}

function showModel(model) {
  const place = byId("found");
  fill(place, modelElement(model));
  place.hidden = false;
  if (model.state === "recording") again(model.name);
}

async function lookAgain(name) {
  try {
    const model = await read(name);
    if (model !== undefined) showModel(model);
  } catch (error) {
    showProblem(byId("trouble"), error);
  }
}

/** How far a model's recording is, or why there will be none. */
function recordingNote({ state, recording }) {
  if (state === "recording") return h("div", { class: "notice", role: "status" }, `Being recorded: ${percent(recording.progress)}, ${recording.phase}. Questions are answered when it is ready.`);
  if (state === "refused") return h("div", { class: "notice is-bad", role: "alert" }, `It could not be recorded: ${recording.reason}`);
  return null;
}

function modelElement(model) {
  if (model.parameters === null) return [h("div", { class: "panel-head" }, h("h2", {}, model.name)), facts([["Family", model.family]]), recordingNote(model)];
  const { total, active, by_module: modules } = model.parameters;
  const spec = model.architecture;
  return [
    h("div", { class: "panel-head" }, h("h2", {}, model.name), h("a", { class: "button", href: `/?model=${encodeURIComponent(model.name)}` }, "Does it fit?")),
    recordingNote(model),
    facts([
      ["Family", model.family],
      ["Parameters", `${short(total)}${active === total ? "" : `, ${short(active)} of them for a token`}`],
      ["Weights", Object.entries(model.weight_bytes).map(([dtype, bytes]) => `${gib(bytes)} in ${dtype}`).join(", ")],
      ...(model.state === "ready" ? shapeFacts(spec) : []),
      ["Experts", spec.num_experts > 0 ? `${spec.num_experts}, ${spec.num_experts_per_token} for a token` : null],
      ["Also called", model.aliases?.join(", ")],
    ]),
    dataTable({
      caption: "Parameters by kind of module",
      columns: [
        { label: "Module", head: true, cell: ([name]) => words(name) },
        { label: "Parameters", number: true, cell: ([, number]) => count(number) },
        { label: "Share", number: true, cell: ([, number]) => percent(number / total, 1) },
      ],
      items: Object.entries(modules).filter(([, number]) => number > 0),
    }),
    model.source && h("p", { class: "muted" }, `Source: ${model.source}`),
    (model.warnings ?? []).map((text) => h("div", { class: "notice is-warn" }, text)),
  ];
}

function shapeFacts(spec) {
  return [
    ["Layers", count(spec.num_hidden_layers)],
    ["Hidden", count(spec.hidden_size)],
    ["Heads", `${spec.num_attention_heads}, ${spec.num_key_value_heads} of keys and values`],
    ["Vocabulary", count(spec.vocab_size)],
  ];
}

async function readFamilies() {
  try {
    const [known, models] = await Promise.all([askAll("/v1/families"), askAll("/v1/models")]);
    families = known;
    recorded = recordedTypes(known, models);
    showFamilies();
  } catch (error) {
    showProblem(byId("families"), error);
  }
}

/** Types that no family is written for and recordings answer for, each with its models. */
function recordedTypes(known, models) {
  const written = new Set(known.map((one) => one.name));
  const types = new Map();
  for (const { name, family, origin } of models) {
    if (origin === "catalogue" && !written.has(family)) types.set(family, [...(types.get(family) ?? []), name]);
  }
  return types;
}

function recordedElement(text) {
  const wanted = [...recorded].filter(([type, models]) => [type, ...models].some((name) => name.toLowerCase().includes(text)));
  if (wanted.length === 0) return null;
  return h(
    "div",
    { class: "recorded" },
    h("h3", {}, "Answered from recordings"),
    h("p", { class: "muted" }, `${count(wanted.length)} of ${count(recorded.size)} further types: transformers' own code was traced, and what a recording does not hold is refused where it is asked.`),
    modelLinks({ models: wanted.flatMap(([, models]) => models) }),
  );
}

function showFamilies() {
  const text = filter.elements.text.value.trim().toLowerCase();
  const wanted = families.filter((one) => [one.name, one.group, ...one.models].some((name) => name.toLowerCase().includes(text)));
  const others = recordedElement(text);
  fill(
    byId("families"),
    wanted.length === 0
      ? others === null && h("p", { class: "empty" }, "No family is called so. A model of another type of transformers is recorded when it is stored: bring its config.json.")
      : dataTable({
          caption: `${count(wanted.length)} of ${count(families.length)} families`,
          columns: [
            { label: "Family", head: true, cell: (one) => one.name },
            { label: "Kind", cell: (one) => words(one.group) },
            { label: "Models", cell: modelLinks },
            { label: "Trained with", cell: (one) => one.training.map(({ framework, methods }) => h("div", {}, `${framework}: ${methods.join(", ")}`)) },
            { label: "Served on", cell: (one) => one.serving.join(", ") || "nothing yet" },
            { label: "Refused", cell: refusals },
          ],
          items: wanted,
          stacks: true,
        }),
    others,
  );
}

function modelLinks({ models }) {
  if (models.length === 0) return "none by name";
  return h("div", { class: "chips" }, models.map((name) => h("a", { href: `/models?model=${encodeURIComponent(name)}`, onclick: (event) => (event.preventDefault(), open(name)) }, name)));
}

function refusals({ refused }) {
  if (refused.length === 0) return "";
  return h("details", {}, h("summary", {}, `${count(refused.length)} combinations`), h("ul", {}, refused.map((one) => h("li", {}, [one.task, one.runner, one.method].filter(Boolean).join(" · "), `: ${one.reason}`))));
}

function open(model) {
  writeQuery({ model }, { push: true });
  lookUp({ model }).then(() => byId("found").scrollIntoView({ block: "nearest" }));
}

form.addEventListener("submit", (event) => (event.preventDefault(), open(form.elements.model.value)));
filter.addEventListener("input", showFamilies);
filter.addEventListener("submit", (event) => event.preventDefault());
onNavigate(lookUp);
makeBringing((model) => open(model.name));
suggest();
lookUp(readQuery());
readFamilies();
