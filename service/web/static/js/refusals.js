// Refusals beside what they are about: a problem of the API names the value, and the form has a control for it.
import { Problem } from "./api.js";
import { h } from "./dom.js";
import { sentence } from "./format.js";
import { showProblem } from "./notice.js";

/**
 * Show a problem: beside the controls that it names, and the rest in `element`. `controlOf(field)` returns the control of a
 * field such as `workload.sequence_length`, or null.
 */
export function showRefusal(form, element, error, controlOf) {
  clearRefusal(form, element);
  if (!(error instanceof Problem) || error.errors.length === 0) {
    showProblem(element, error);
    return;
  }
  const homeless = error.errors.filter((one) => !complain(controlOf(one.field), one.message));
  if (homeless.length > 0) showProblem(element, error);
  form.querySelector("[aria-invalid=true]")?.focus();
}

/** Take back what was shown. */
export function clearRefusal(form, element) {
  showProblem(element, null);
  for (const control of form.querySelectorAll("[aria-invalid=true]")) {
    control.removeAttribute("aria-invalid");
    control.removeAttribute("aria-describedby");
  }
  for (const note of form.querySelectorAll(".field-error")) note.remove();
}

function complain(control, message) {
  const field = control instanceof Element ? control.closest(".field") : null;
  // A field of the other task is not seen, and neither would be what stands in it.
  if (field === null || field.closest("[hidden]") !== null) return false;
  const id = `refusal-${control.name}`;
  control.setAttribute("aria-invalid", "true");
  control.setAttribute("aria-describedby", id);
  field.append(h("span", { class: "field-error", id }, sentence(message)));
  return true;
}
