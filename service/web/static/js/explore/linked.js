// The end of the line that a hook shows its user: /questions/DIGEST, the question that it answered.
import { ask } from "../api.js";
import { byId, h } from "../dom.js";
import { nameInPath } from "../state.js";
import { lostWords } from "./question.js";

/** Whether the address is such a link. */
export const isLinked = () => nameInPath() !== "";

/** Ask what a hook was asked; from then on the address holds the question itself. */
export async function followLink({ form, take, refuse }) {
  try {
    const { question } = await ask(`/v1/hooks/questions/${encodeURIComponent(nameInPath())}`);
    history.replaceState(null, "", "/");
    take(question);
    const lost = lostWords(form, question);
    if (lost.length > 0) byId("answers").before(h("p", { class: "notice is-warn" }, `This page has no field for ${lost.join(", ")}: the answer below is without.`));
  } catch (error) {
    refuse(error);
  }
}
