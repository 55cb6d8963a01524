// Saying what went wrong, where the reader looks.
import { Problem } from "./api.js";
import { fill, h } from "./dom.js";
import { sentence } from "./format.js";

/** Show an error in `element`; `null` clears it. Anything that is not a refusal of the API is a fault of ours, and is thrown on. */
export function showProblem(element, error) {
  element.hidden = error === null;
  if (error === null) {
    fill(element);
    return;
  }
  if (!(error instanceof Problem)) throw error;
  fill(
    element,
    h(
      "div",
      { class: "notice is-bad", role: "alert" },
      h("strong", {}, error.title || "That did not work"),
      h("p", {}, sentence(error.message)),
      error.errors.length > 1 && h("ul", {}, error.errors.map((one) => h("li", {}, h("code", {}, one.field), ` ${one.message}`))),
    ),
  );
}

/** A plain message in place of what is not there. */
export function emptyNote(text, ...more) {
  return h("p", { class: "empty" }, text, ...more);
}
