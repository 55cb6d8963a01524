// What somebody has in place of our words: a launch becomes the question, a failed run's message is explained.
import { ask, latest, Problem } from "../api.js";
import { byId, say } from "../dom.js";
import { base64Of, fileBox, textOf } from "../files.js";
import { clearRefusal, showRefusal } from "../refusals.js";
import { showFailure } from "./failure.js";
import { isWeights, sourceOf } from "../models/source.js";
import { configIn, isFailure, nameOfPasted } from "./kinds.js";
import { launchPanel } from "./launch.js";
import { brought, readQuestion } from "./question.js";

const LOG = "log";
const FIELDS = { files: "text", command: "text", content: "text", arguments: "text", launcher: "reader" };

/** A refusal of what cannot even be sent. */
class NothingHandedIn extends Problem {
  constructor(message) {
    super({ status: 0, title: "There is nothing to read", detail: message, errors: [{ field: "files", message }] });
  }
}

/** Make the box work: `onQuestion(question)` is called with what a launch asks, `onApply(change)` with a remedy. */
export function makeHandIn({ form, onQuestion, onApply }) {
  const box = byId("hand-in");
  const own = byId("hand-in-form");
  const trouble = byId("hand-in-problem");
  const failure = byId("failure-outcome");
  const files = fileBox({ zone: box, input: byId("hand-in-files"), list: byId("hand-in-list"), onChange: (all) => all.length > 0 && (box.open = true) });
  const launch = launchPanel(byId("launch-outcome"), { form, onQuestion });
  const control = (field) => own.elements.namedItem(FIELDS[field.split(".").find((step) => step in FIELDS)] ?? "");

  const read = latest(async (signal) => {
    const sent = await gather(own.elements.text.value, files.get(), own.elements.reader.value);
    if (sent.sources !== null) await launch.read({ ...sent.sources, ...(sent.launcher && { launcher: sent.launcher }) }, sent.model, signal);
    else if (sent.model !== null) onQuestion({ ...readQuestion(form), model: sent.model });
    if (sent.failure === null) return;
    const isAlong = own.elements.along.checked || sent.sources !== null;
    const question = isAlong ? { question: readQuestion(form) } : {};
    showFailure(failure, await ask("/v1/explain", { method: "POST", body: { ...sent.failure, ...question }, signal }), { onApply });
  });
  own.addEventListener("submit", async (event) => {
    event.preventDefault();
    clearRefusal(own, trouble);
    launch.clear();
    failure.hidden = true;
    try {
      await read();
      const outcome = [failure, byId("launch-outcome")].find((one) => !one.hidden);
      outcome?.focus({ preventScroll: true });
    } catch (error) {
      showRefusal(own, trouble, error, control);
      say("It could not be read");
    }
  });
  byId("hand-in-clear").addEventListener("click", () => {
    read.stop();
    own.reset();
    files.clear();
    launch.clear();
    failure.hidden = true;
    clearRefusal(own, trouble);
  });
  // Who pastes a command sends it by one key, as in a shell.
  own.elements.text.addEventListener("keydown", (event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && own.requestSubmit());
}

/** Return `{ sources, model, failure, launcher }` of what was handed in: a launch, a model's config, what a failed run said. */
async function gather(text, files, reader) {
  const parts = { files: [], command: null, logs: [], binary: null, model: null };
  const read = await Promise.all(files.filter((file) => !isWeights(file)).map(async (file) => ({ file, text: await textOf(file) })));
  if (files.some(isWeights)) parts.model = modelIn(await sourceOf(files.filter((file) => isWeights(file) || file.name === "config.json")));
  const pasted = text.trim() === "" ? [] : [{ file: { name: nameOfPasted(text) }, text }];
  for (const one of [...read, ...pasted]) sort(parts, one, reader);
  const { files: launched, command, logs, binary, model } = parts;
  if (launched.length === 0 && command === null && logs.length === 0 && binary === null && model === null) {
    throw new NothingHandedIn("Paste a launch command, a file's text or an error message, or choose files.");
  }
  const hasLaunch = launched.length > 0 || command !== null;
  return {
    sources: hasLaunch ? { ...(launched.length > 0 && { files: launched }), ...(command !== null && { command }) } : null,
    model,
    failure: binary !== null ? { content_base64: await base64Of(binary) } : logs.length > 0 ? { content: logs.join("\n") } : null,
    launcher: reader === LOG ? "" : reader,
  };
}

/** Of a model's files what the form can hold: the header of a GGUF file, or the config. */
function modelIn({ gguf, hf_config: config }) {
  return gguf === undefined ? { hf_config: config } : { gguf };
}

function sort(parts, { file, text }, reader) {
  const config = text === null ? null : configIn(text);
  if (text === null) parts.binary = file;
  else if (config !== null) parts.model ??= brought(config);
  else if (reader === LOG || (reader === "" && isFailure(text))) parts.logs.push(text);
  else if (file.name === null) parts.command = text;
  else parts.files.push({ name: file.name, content: text });
}
