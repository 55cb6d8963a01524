// What the API refuses, beside the field that it names.
import { h } from "../dom.js";
import { sentence } from "../format.js";

// Beyond it a message is no note beside a field.
const MOST_LETTERS = 240;

/**
 * Show each error of a problem at its field. Paths go deeper than fields do: the longest that is a field is taken. The first
 * is brought into view, unless somebody is at work in another.
 */
export function showFieldErrors(forms, problem) {
  clearFieldErrors(forms);
  for (const { field, message } of problem.errors) {
    const box = boxOf(forms, field);
    const control = box?.querySelector("input, select, textarea");
    if (!control) continue;
    const note = h("span", { class: "field-error", id: `${control.id}-error` }, brief(sentence(message)));
    box.append(note);
    control.setAttribute("aria-invalid", "true");
    control.dataset.described = control.getAttribute("aria-describedby") ?? "";
    control.setAttribute("aria-describedby", `${control.dataset.described} ${note.id}`.trim());
    for (const fold of ancestors(box)) fold.open = true;
  }
  const isAtWork = forms.some((form) => form.contains(document.activeElement));
  if (!isAtWork) forms[0].querySelector("[aria-invalid]")?.scrollIntoView({ block: "nearest" });
}

/** The beginning of a message that the notice above has whole: a long list of names is told once. */
function brief(message) {
  return message.length <= MOST_LETTERS ? message : `${message.slice(0, message.lastIndexOf(" ", MOST_LETTERS))} …`;
}

/** Take all of them back. */
export function clearFieldErrors(forms) {
  for (const form of forms) {
    for (const note of form.querySelectorAll(".field-error")) note.remove();
    for (const control of form.querySelectorAll("[aria-invalid]")) {
      control.removeAttribute("aria-invalid");
      if (control.dataset.described) control.setAttribute("aria-describedby", control.dataset.described);
      else control.removeAttribute("aria-describedby");
    }
  }
}

function boxOf(forms, path) {
  const steps = path.replaceAll(/\[\d+\]/g, "").split(".");
  if (path === "config") steps[0] = "model";
  for (let length = steps.length; length > 0; length -= 1) {
    const name = steps.slice(0, length).join(".");
    for (const form of forms) {
      const box = [...form.querySelectorAll(`[data-field="${CSS.escape(name)}"]`)].find((each) => each.closest("fieldset:disabled") === null && !each.hidden);
      if (box !== undefined) return box;
    }
  }
  return null;
}

function* ancestors(box) {
  for (let fold = box.closest("details"); fold !== null; fold = fold.parentElement.closest("details")) yield fold;
}
