// A workload from the controls of a form, and the form's folding: only what belongs to the chosen task is asked.
const NUMBERS = new Set(["sequence_length", "micro_batch_size", "num_sequences", "prompt_tokens", "output_tokens"]);
const WORDS = new Set(["method", "precision", "engine"]);

/** Return the workload that a form's state says; `more` holds further words as JSON. Throws a SyntaxError where it is none. */
export function workloadOf(state) {
  const workload = { task: state.task };
  for (const [name, value] of Object.entries(state)) {
    if (NUMBERS.has(name)) workload[name] = Number(value);
    else if (WORDS.has(name)) workload[name] = value;
  }
  return Object.assign(workload, state.more ? JSON.parse(state.more) : {});
}

/** Show the controls of one task and hide those of the other. */
export function showTask(form) {
  for (const part of form.querySelectorAll("[data-task]")) part.hidden = part.dataset.task !== form.elements.task.value;
}

/** Return a form's state without what is hidden. */
export function visibleState(form, state) {
  return Object.fromEntries(Object.entries(state).filter(([name]) => form.elements[name]?.closest("[hidden]") === null));
}
