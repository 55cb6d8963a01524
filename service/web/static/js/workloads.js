// A workload from the controls of a form, and the form's folding: only what belongs to the chosen task is asked.
import { Problem } from "./api.js";

const NUMBERS = new Set(["sequence_length", "micro_batch_size", "num_sequences", "prompt_tokens", "output_tokens"]);
const WORDS = new Set(["method", "precision", "engine"]);

/** Return the workload that a form's state says; `more` holds further words as JSON. Throws a Problem where it is no object. */
export function workloadOf(state) {
  const workload = { task: state.task };
  for (const [name, value] of Object.entries(state)) {
    if (NUMBERS.has(name)) workload[name] = numberOf(value);
    else if (WORDS.has(name)) workload[name] = value;
  }
  return { ...workload, ...(state.more ? objectOf(state.more) : {}) };
}

/** Return a text as a number; what is none is sent as it stands, and refused there. */
export function numberOf(text) {
  return text.trim() !== "" && isFinite(text) ? Number(text) : text;
}

function objectOf(text) {
  const refusal = (why) => new Problem({ status: 0, title: "The question cannot be read", detail: `the other words are no JSON object: ${why}`, errors: [{ field: "more", message: `no JSON object: ${why}` }] });
  let found;
  try {
    found = JSON.parse(text);
  } catch (error) {
    throw refusal(error.message);
  }
  if (found === null || typeof found !== "object" || Array.isArray(found)) throw refusal(`${text} is none; write {"name": value}`);
  return found;
}

/** Show the controls of one task and hide those of the other. */
export function showTask(form) {
  for (const part of form.querySelectorAll("[data-task]")) part.hidden = part.dataset.task !== form.elements.task.value;
}

/** Return a form's state without what is hidden. */
export function visibleState(form, state) {
  return Object.fromEntries(Object.entries(state).filter(([name]) => form.elements[name]?.closest("[hidden]") === null));
}
