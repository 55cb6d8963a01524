// The job that is asked about, as a scheduler's client reads it.
import { ask, latest } from "../api.js";
import { byId, fill, h } from "../dom.js";
import { copyButton, downloadButton } from "../export.js";
import { showProblem } from "../notice.js";

const SCRIPTS = new Set(["runai", "slurm"]);
const box = byId("job-box");
const form = byId("job-form");
let question = null;
let rendered = null;

const render = latest((signal, asked, word) => {
  const { model, workload, gpu, layout, cluster, confidence } = asked;
  const image = form.elements.image.value.trim();
  const body = { model, workload, gpu, ...(layout && { layout }), ...(cluster && { cluster }), ...(confidence && { confidence }), ...(image && { container_image: image }) };
  return ask(`/v1/formats/${encodeURIComponent(word)}`, { method: "POST", body, signal });
});

/** Take the question that was answered; the job is rendered while it is looked at. */
export function showJob(asked) {
  question = asked;
  show();
}

async function show() {
  if (question === null || !box.open) return;
  showProblem(byId("job-problem"), null);
  try {
    const answer = await render(question, form.elements.format.value);
    if (answer !== undefined) showRendering(answer);
  } catch (error) {
    fill(byId("job"));
    showProblem(byId("job-problem"), error);
  }
}

function showRendering(answer) {
  rendered = answer;
  if (answer.text === null) {
    fill(byId("job"), h("p", { class: "muted" }, `${answer.format}: ${answer.reason}`));
    return;
  }
  fill(
    byId("job"),
    h("div", { class: "row is-end" }, copyButton("Copy", () => rendered.text), downloadButton(() => ({ name: fileName(rendered.format), text: rendered.text }))),
    h("pre", { class: "code", tabindex: "0", role: "group", "aria-label": "The job" }, answer.text),
    ...answer.notes.map((note) => h("p", { class: "muted small" }, note)),
  );
}

function fileName(word) {
  return SCRIPTS.has(word) ? `${word}.sh` : `${word}.yaml`;
}

box.addEventListener("toggle", show);
form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("change", show);
