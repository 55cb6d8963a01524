// What is asked before anybody has said anything.

/** The first question, where the address holds none: one that fits. A link leaves out what it leaves at the API's default. */
export const FIRST = { "workload.method": "lora", "workload.precision": "bf16" };
const FIRST_ENGINE = "vllm";

/**
 * Whoever turns to serving mostly means an engine; that of the API's default is a choice like any other. It is
 * called before the question is read anew, so that both are one step.
 */
export function offerEngine(form, target) {
  const engine = form.elements["workload.engine"];
  if (target.name === "task" && target.value === "serve" && engine.value === "") engine.value = FIRST_ENGINE;
}
