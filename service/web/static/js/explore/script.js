// The question as a script asks it: the page uses no other way than anybody's.
import { fill } from "../dom.js";
import { textTabs } from "../tabs.js";
import { showJob } from "./job.js";

const PLAIN = /^[\w.,:/@+-]+$/;
const CONFIG_FILE = "config.json";

/** Show the request as commands, as Python and as JSON, and its job as schedulers take it. */
export function showScript(element, question) {
  const texts = [["curl", curl(question)], ["headroom", command(question)], ["Python", python(question)], ["JSON", json(question)]];
  fill(element, textTabs("The same question from a script", texts.filter(([, text]) => text !== null)));
  showJob(question);
}

function json(question) {
  return JSON.stringify(question, null, 2);
}

function curl(question) {
  const key = '${HEADROOM_API_KEY:+-H "Authorization: Bearer $HEADROOM_API_KEY"}';
  return `curl ${location.origin}/v1/fit ${key} -H 'content-type: application/json' -d ${quoted(json(question))}`;
}

/** Return the question as `headroom fit` takes it, or null for one that has words for which there is no flag. */
export function command({ model, gpu, workload, layout = {} }) {
  const words = [...flags(workload), ...flags(layout)];
  if (model.num_parameters !== undefined || model.architecture !== undefined || words.includes(null)) return null;
  const named = typeof model === "string" ? word(model) : `--config ${CONFIG_FILE}`;
  const device = typeof gpu === "string" ? `--gpu ${word(gpu)}` : `--gpu-memory ${gpu.memory_bytes}`;
  return [`headroom fit ${named} ${device}`, ...words, `--server ${location.origin}`].join(" \\\n  ");
}

function python(question) {
  return [
    "from service.client.headroom import Headroom",
    "",
    `question = ${literal(question, "")}`,
    `with Headroom(${JSON.stringify(location.origin)}) as headroom:`,
    "    answer = headroom.fit(**question)",
    "print(answer.verdict, answer.per_gpu.device_bytes)",
  ].join("\n");
}

function flags(words, prefix = "--") {
  return Object.entries(words).flatMap(([name, value]) => {
    const flag = `${prefix}${name.replaceAll("_", "-")}`;
    if (value === true) return flag;
    if (value === false) return flag.replace("--", "--no-");
    if (value === null || value.length === 0) return null;
    if (Array.isArray(value)) return `${flag} ${word(value.join(","))}`;
    if (typeof value !== "object") return `${flag} ${word(String(value))}`;
    if (name === "activation_checkpointing") return `${flag} selective:${value.selective}`;
    return ["lora", "offload", "peft", "speculative"].includes(name) ? flags(value, `${flag}-`) : null;
  });
}

function word(text) {
  return PLAIN.test(text) ? text : quoted(text);
}

/** In single quotes a shell reads everything as it stands but the quote itself. */
function quoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** A value of JSON as Python writes it. */
function literal(value, indent) {
  if (value === null || typeof value === "boolean") return { null: "None", true: "True", false: "False" }[String(value)];
  if (typeof value !== "object") return JSON.stringify(value);
  const deeper = `${indent}    `;
  const lines = Array.isArray(value) ? value.map((one) => literal(one, deeper)) : Object.entries(value).map(([name, one]) => `${JSON.stringify(name)}: ${literal(one, deeper)}`);
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  return lines.length === 0 ? open + close : `${open}\n${lines.map((line) => `${deeper}${line},\n`).join("")}${indent}${close}`;
}
