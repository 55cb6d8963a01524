// Numbers as people read them. Bytes are GiB on a page, and exact in the title of what shows them.
import { h } from "./dom.js";

const GIB = 2 ** 30;
const UNITS = [
  ["TiB", 2 ** 40],
  ["GiB", GIB],
  ["MiB", 2 ** 20],
  ["KiB", 2 ** 10],
];
const TIMES = [
  ["d", 86400],
  ["h", 3600],
  ["min", 60],
];
const counts = new Intl.NumberFormat("en-US");
const dollars = new Intl.NumberFormat("en-US", { style: "currency", currency: "USD" });
const ACRONYMS = { cuda: "CUDA", gpt: "GPT", gpu: "GPU", gpus: "GPUs", kv: "KV", lora: "LoRA", moe: "MoE", ssm: "SSM", zero: "ZeRO" };
export const MISSING = "–";

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

/** Bytes in GiB with one decimal: "79.2 GiB"; of less than a tenth, in MiB or less. */
export function gib(bytes) {
  if (!isNumber(bytes)) return MISSING;
  if (Math.abs(bytes) >= GIB / 10) return `${(bytes / GIB).toFixed(1)} GiB`;
  return size(bytes);
}

/** Bytes in the largest unit that they fill. */
export function size(bytes) {
  if (!isNumber(bytes)) return MISSING;
  const [unit, one] = UNITS.find(([, each]) => Math.abs(bytes) >= each) ?? ["B", 1];
  return one === 1 ? `${bytes} B` : `${(bytes / one).toFixed(1)} ${unit}`;
}

/** Bytes to the byte: "85,899,345,920 B". */
export function exact(bytes) {
  return isNumber(bytes) ? `${counts.format(bytes)} B` : MISSING;
}

/** An element that shows GiB and tells the exact bytes when pointed at. */
export function bytesElement(bytes) {
  return h("span", { class: "number", title: exact(bytes) }, gib(bytes));
}

/** A whole number with separators. */
export function count(value) {
  return isNumber(value) ? counts.format(value) : MISSING;
}

/** A large number in short: "6.74 B", "131 k"; tokens and parameters. */
export function short(value) {
  if (!isNumber(value)) return MISSING;
  const [unit, one] = [["T", 1e12], ["B", 1e9], ["M", 1e6], ["k", 1e3]].find(([, each]) => Math.abs(value) >= each) ?? ["", 1];
  const shown = value / one;
  const digits = one === 1 && Number.isInteger(shown) ? 0 : Math.abs(shown) >= 100 ? 0 : Math.abs(shown) >= 10 ? 1 : 2;
  return `${shown.toFixed(digits)}${unit && `\u202f${unit}`}`;
}

/** Seconds as people say them: "12 ms", "1.07 s", "3.5 min". */
export function seconds(value) {
  if (!isNumber(value)) return MISSING;
  const [unit, one] = TIMES.find(([, each]) => value >= each * 1.5) ?? ["s", 1];
  if (one > 1) return `${(value / one).toFixed(1)} ${unit}`;
  if (value >= 1) return `${value.toFixed(2)} s`;
  return value >= 1e-3 ? `${(value * 1e3).toFixed(value >= 0.1 ? 0 : 1)} ms` : `${(value * 1e6).toFixed(0)} µs`;
}

/** A share of one as per cent. */
export function percent(share, digits = 1) {
  return isNumber(share) ? `${(share * 100).toFixed(digits)} %` : MISSING;
}

/** The share of a part as whole per cents; of one that is there but rounds to nothing, that it is less than one. */
export function partPercent(share) {
  return share > 0 && share < 0.005 ? "< 1 %" : percent(share, 0);
}

/** A signed share of one: "+3.1 %". */
export function signedPercent(share, digits = 1) {
  if (!isNumber(share)) return MISSING;
  const text = Math.abs(share * 100).toFixed(digits);
  return `${Number(text) === 0 ? "" : share > 0 ? "+" : "-"}${text} %`;
}

/** US dollars. */
export function usd(value) {
  return isNumber(value) ? dollars.format(value) : MISSING;
}

/** A time of the API in the reader's zone, exact in its title. */
export function whenElement(iso) {
  if (!iso) return h("span", { class: "muted" }, MISSING);
  const at = new Date(iso);
  const text = at.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
  return h("time", { datetime: iso, title: at.toISOString() }, text);
}

/** A name of the API as words: "optimizer_states" is "Optimizer states", "num_sequences" is "Sequences". */
export function words(name) {
  const text = String(name).replace(/^num_/, "").split("_").map((word) => ACRONYMS[word] ?? word).join(" ");
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** A message of the API as a sentence: with an end and, unless it starts with the path of a field, a capital. */
export function sentence(text) {
  const start = /^[a-z]+(?=[\s,;])(?! \()/.test(text) ? text.charAt(0).toUpperCase() + text.slice(1) : text;
  return /[.?!]$/.test(start) ? start : `${start}.`;
}
