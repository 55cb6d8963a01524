// The answer as Markdown, for chats and tickets.
import { markdown, markdownTable } from "../export.js";
import { gib, words } from "../format.js";
import { headline, subject } from "./verdict.js";

/** Return a shown answer with its components and the link to it. */
export function markdownOf({ question, answer: found, address: link }) {
  const { components, device_bytes, intervals } = found.per_gpu;
  const rows = components.map((part) => [words(part.name), gib(part.bytes), part.basis, part.formula]);
  return [
    markdown`**${headline(found)}** — ${subject(question, found)}`,
    "",
    markdownTable(["Component", "Bytes", "Known", "How"], rows),
    "",
    markdown`Device ${gib(device_bytes)} per GPU (95 %: ${gib(intervals.device[0])} to ${gib(intervals.device[1])}) of ${gib(found.usable_bytes)} usable; peak in ${words(found.per_gpu.peak_instant).toLowerCase()}; ${found.basis}.`,
    "",
    link,
  ].join("\n");
}
