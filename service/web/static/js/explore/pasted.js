// A pasted config.json: what of it is asked about, how long it makes the link, and storing it under a name.
import { ask } from "../api.js";
import { byId } from "../dom.js";
import { count } from "../format.js";
import { showProblem } from "../notice.js";

// What chats and tickets are known to take whole, and servers of theirs too.
const LONG_LINK = 4000;

/** Return a config without the names of its labels, which can be most of it: how many there are is all that counts. */
export function slim(config) {
  if (!isObject(config)) return config;
  const { id2label, label2id, ...others } = config;
  const names = isObject(id2label) ? Object.keys(id2label).length : 0;
  return names > 0 && others.num_labels === undefined ? { ...others, num_labels: names } : others;
}

/** Return a pasted text as it goes along in a link; what is no JSON stays as it stands. */
export function linkText(text) {
  return ifJson(text, (config) => JSON.stringify(slim(config)));
}

/** Return a text of a link as it is read. */
export function shownText(text) {
  return ifJson(text, (config) => JSON.stringify(config, null, 2));
}

/** Make the row below a config work: `readSource()` returns what it is, `onStored(model)` is called with what it became. */
export function offerStore({ readSource, onStored }) {
  const [name, trouble] = [byId("store-name"), byId("store-problem")];
  const store = async () => {
    showProblem(trouble, null);
    try {
      onStored(await ask("/v1/models", { method: "POST", body: { name: name.value.trim(), source: readSource() } }));
      name.value = "";
    } catch (error) {
      showProblem(trouble, error);
    }
  };
  byId("store-model").addEventListener("click", store);
  name.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    store();
  });
}

/** Show the row where there is a config, and say that it is what is asked about. */
export function showStore(form) {
  const isPasted = form.elements.config.value.trim() !== "";
  byId("store").hidden = !isPasted;
  byId("model-note").hidden = isPasted;
  byId("pasted-note").hidden = !isPasted;
}

/** Say what a long link means for whoever sends it on. */
export function noteLink(letters, isKept) {
  const note = byId("config-note");
  note.hidden = isKept && letters <= LONG_LINK;
  note.textContent = isKept
    ? `The link has ${count(letters)} letters, since the config goes along: chats and tickets may cut it off. Store the model, and the link is short.`
    : "The config is too long for a link, which leaves it out. Store the model, and the link names it.";
}

function isObject(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

function ifJson(text, f) {
  try {
    return f(JSON.parse(text));
  } catch (error) {
    if (error instanceof SyntaxError) return text;
    throw error;
  }
}
