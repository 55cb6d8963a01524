// Explore: a question that is answered anew as it changes. The address holds the question, the form shows it.
import { ask, latest, Problem } from "../api.js";
import { byId, debounced, fill, painted, say } from "../dom.js";
import { exportBar } from "../export.js";
import { showProblem } from "../notice.js";
import { fillForm, formState, onNavigate, readQuery } from "../state.js";
import { makeAddress } from "./address.js";
import { offerCatalogue } from "./catalogue.js";
import { comparePanel } from "./compare.js";
import { clearFieldErrors, showFieldErrors } from "./errors.js";
import { makeHandIn } from "./hand_in.js";
import { fitMap } from "./map.js";
import { markdownOf } from "./markdown.js";
import { showAssumptions, showDefaults, showRemedies, showRules } from "./notes.js";
import { FIRST, offerEngine } from "./first.js";
import { followLink, isLinked } from "./linked.js";
import { linkText, noteLink, offerStore, showStore, shownText } from "./pasted.js";
import { makeOnward } from "./onward.js";
import { planPanel } from "./plan.js";
import { applyChange, applyQuestion, arrange, readQuestion } from "./question.js";
import { showScript } from "./script.js";
import { addSliders } from "./sliders.js";
import { stepChart, stepTable } from "./step.js";
import { headline, modelName, showSummary, showVerdict } from "./verdict.js";

// A question that overtakes another one waits this long for the next: whoever types fast asks about the last key only.
const PAUSE_MS = 30;
// What would help is dozens of questions, and the map is many: both wait until nothing was typed for a while.
const REST_PAUSE_MS = 350;
const RECORDING_PAUSE_MS = 3000;
const form = byId("question");
const planForm = byId("plan-form");
const mapForm = byId("map-form");
const initial = formState(planForm);
let shown = null;
// The question that the answer is of; null while what the form holds is refused.
let current = null;
let searched = false;
let typed = null;
// When the input came that is not answered yet.
let since = 0;
let named = null;

const chart = stepChart(byId("step-chart"), byId("components"));
const catalogue = offerCatalogue(() => changed({ push: true }));
const offered = catalogue.ready.then(() => true, (error) => (showProblem(byId("map-problem"), error), false));
const map = fitMap({ known: catalogue.known, onPick: pick, onChange: () => (keep({ push: true }), drawMap()) });
const plan = planPanel({ onUse: use, onApply: apply, onFail: (error) => error instanceof Problem && showFieldErrors([form, planForm], error) });
const address = makeAddress({ onPacked });
const moveSliders = addSliders(form);
const compare = comparePanel({ onShow: use, onChange: () => keep({ push: true }) });
// A form that cannot be read overtakes the run before as well: its answer is to another question.
const fit = latest(async (signal) => {
  const question = readQuestion(form);
  return { question, answer: await ask("/v1/fit", { method: "POST", body: { ...question, remedies: false }, signal }) };
});
const reprice = debounced(answer, PAUSE_MS);
// What takes longer comes one after the other: the server has its hands full with either.
const rest = latest(async (signal) => {
  const question = current;
  if (question !== null && shown.answer.verdict !== "fits") await find(question, signal);
  await compare.look(signal);
  if (await offered) drawMap(signal);
});
const askRest = debounced(rest, REST_PAUSE_MS);
// A model that is being recorded is asked about again until it is ready.
const askAgain = debounced(() => ((since = performance.now()), answer()), RECORDING_PAUSE_MS);

fill(byId("step-export"), exportBar({ name: "headroom", csv: () => stepTable(shown.answer), json: () => ({ question: shown.question, answer: shown.answer }), png: chart.png, markdown: () => markdownOf(shown) }));
form.addEventListener("input", ({ target }) => offerEngine(form, target));
// A name that is only half typed is not asked about: who leaves its field, or presses Enter, has said it.
form.addEventListener("input", ({ target, timeStamp }) => target.name && catalogue.isWhole(target) && changed({ push: isStep(target), at: timeStamp }));
form.addEventListener("change", ({ target }) => {
  typed = null;
  if (!catalogue.isWhole(target)) changed({ push: true });
});
for (const one of [form, mapForm]) one.addEventListener("submit", (event) => event.preventDefault());
planForm.addEventListener("submit", (event) => (event.preventDefault(), (searched = true), keep({ push: true }), search()));
byId("start-over").addEventListener("click", () => (restore(FIRST), changed({ push: true })));
// Links to parts of the page: behind the # of its address stands something else.
document.addEventListener("click", jump);
offerStore({ readSource: () => readQuestion(form).model, onStored: nameModel });
const noteOnward = makeOnward({ question: () => current });
makeHandIn({ form, onQuestion: take, onApply: apply });
onNavigate(arrive);

await (isLinked() ? followLink({ form, take, refuse }) : arrive(readQuery()));

/** Show what the address says, and ask it; one that is not whole says nothing that could be asked. */
async function arrive(query) {
  const state = Object.keys(query).length === 0 ? FIRST : query;
  since = performance.now();
  leaveRest();
  try {
    const { config, kept = [] } = await address.read();
    restore(config === undefined ? state : { ...state, config: shownText(config) });
    compare.restore(kept);
  } catch (error) {
    restore(state);
    refuse(error);
    return;
  }
  plan.clear();
  await answer();
  if (searched) search();
}

function jump(event) {
  const link = event.target.closest("a[href^='#']");
  if (link === null) return;
  event.preventDefault();
  const place = byId(link.hash.slice(1));
  place.focus({ preventScroll: true });
  place.scrollIntoView();
}

/** A config that was stored is asked about by its name. */
function nameModel(model) {
  catalogue.known.models.push({ ...model, supported: true, origin: "stored" });
  form.elements.model.value = model.name;
  changed({ push: true });
}

function onPacked(letters, isKept) {
  if (shown !== null) shown.address = location.href;
  if (form.elements.config.value !== "") noteLink(letters, isKept);
}

/** The form was changed: keep it in the address and ask again. What was searched was about another question. */
function changed(step = {}) {
  since = step.at ?? performance.now();
  leaveRest();
  // Whoever names a model means that one, and no longer the config that was pasted before.
  if (form.elements.model.value !== named) form.elements.config.value = "";
  named = form.elements.model.value;
  arrange(form);
  showStore(form);
  if (searched) {
    searched = false;
    plan.clear();
  }
  keep(step);
  if (fit.isRunning()) reprice();
  else reprice.now();
}

/** A choice is a step that can be gone back from, and so is the first letter of what is typed; the others belong to it. */
function isStep(control) {
  const before = typed;
  typed = control.tagName === "SELECT" || control.type === "radio" ? null : control;
  return typed === null || typed !== before;
}

function keep(step) {
  const { config, ...state } = { ...formState(form), ...formState(mapForm) };
  const extra = { ...(config && { config: linkText(config) }), ...(compare.kept().length > 0 && { kept: compare.kept() }) };
  address.keep(searched ? { ...state, ...formState(planForm), plan: "1" } : state, extra, step);
}

function restore(state) {
  byId("map-axis").dataset.wanted = state.axis ?? "";
  for (const radio of form.elements.task) radio.checked = radio.value === (state.task ?? "train");
  // Twice: what a field shows depends on the fields that decide which ones there are.
  for (let round = 0; round < 2; round += 1) {
    arrange(form);
    fillForm(form, state);
  }
  arrange(form);
  fillForm(planForm, { ...initial, ...state });
  fillForm(mapForm, state);
  byId("config-fold").open = Boolean(state.config);
  showStore(form);
  named = form.elements.model.value;
  searched = state.plan === "1";
}

async function answer() {
  const start = since;
  try {
    const found = await fit();
    if (found === undefined) return;
    show(found);
    await painted();
    performance.measure("headroom.reprice", { start, end: performance.now() });
    if (current === found.question) showMore(found);
  } catch (error) {
    refuse(error);
  }
}

/** What is looked at while one types. */
function show(asked) {
  const { question, answer: found } = asked;
  shown = { ...asked, address: location.href };
  current = question;
  clearFieldErrors([form, planForm]);
  byId("answers").classList.remove("is-empty");
  showProblem(byId("problem"), null);
  markStale(false);
  showVerdict(byId("verdict"), question, found);
  noteOnward(question);
  showSummary(byId("summary"), found);
  chart.show(found);
  document.title = `${headline(found)} · ${modelName(question)} · Headroom`;
}

/** What is read once one has stopped, and is not to keep the bars waiting. */
function showMore({ question, answer: found }) {
  showRemedies(byId("remedies-panel"), byId("remedies"), found, { onApply: apply, isLooking: true });
  compare.showNow(question, found);
  showRules(byId("rules"), found);
  showAssumptions(byId("assumptions"), found);
  showDefaults(form, found);
  moveSliders();
  showScript(byId("script"), question);
  say(headline(found));
  askRest();
}

function drawMap(signal = null) {
  if (current !== null && !signal?.aborted) map.show(current);
}

/** What was still looked for is about a question that nobody asks any more. */
function leaveRest() {
  askAgain.cancel();
  askRest.cancel();
  rest.stop();
  map.stop();
}

/** Ask what would help. */
async function find(question, signal) {
  try {
    const found = await ask("/v1/fit", { method: "POST", body: question, signal });
    if (current !== question) return;
    shown.answer = found;
    showRemedies(byId("remedies-panel"), byId("remedies"), found, { onApply: apply, isLooking: false });
  } catch (error) {
    if (!signal.aborted && current === question) showProblem(byId("problem"), error);
  }
}

function refuse(error) {
  showProblem(byId("problem"), error);
  if (error.type === "model-recording") askAgain();
  showFieldErrors([form, planForm], error);
  // Before the first answer there is nothing to show beside what is wrong.
  byId("answers").classList.toggle("is-empty", shown === null);
  current = null;
  markStale(true);
  byId("summary").hidden = true;
  document.title = `${error.title || "Refused"} · Headroom`;
}

/** What stands under a question that was refused is of another one: it is neither taken along nor acted upon. */
function markStale(isStale) {
  for (const part of byId("answers").children) {
    if (part.id === "problem" || part.id === "search") continue;
    part.classList.toggle("is-stale", isStale);
    part.inert = isStale;
  }
}

function apply(change) {
  applyChange(form, change);
  changed({ push: true });
  toVerdict();
}

/** Make another question the form's; a candidate of a search is about the same model. */
function use(question) {
  take(question);
  toVerdict();
}

function take({ model, gpu, workload, layout, cluster }) {
  applyQuestion(form, { model, gpu, workload, layout, cluster });
  byId("config-fold").open ||= form.elements.config.value !== "";
  // What is pasted stands for the model that is named, whatever that says.
  named = form.elements.model.value;
  changed({ push: true });
}

/** What was pressed is about another question by then, and may be gone. */
function toVerdict() {
  byId("verdict").focus({ preventScroll: true });
  byId("verdict").scrollIntoView({ block: "nearest" });
}

function pick(gpu, field, value) {
  form.elements.gpu.value = gpu;
  applyChange(form, { [field]: value });
  changed({ push: true });
}

function search() {
  plan.search(() => readQuestion(form));
}
