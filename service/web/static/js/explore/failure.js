// Why a run failed for memory: who had what, the causes, what would have helped, and what was predicted beside it.
import { fill, h, say } from "../dom.js";
import { bytesElement, count, exact, gib, sentence, words } from "../format.js";
import { dataTable, facts } from "../tables.js";
import { showRemedies } from "./notes.js";

const CERTAINTY = { certain: "is-bad", likely: "is-warn", possible: "" };
const BALANCE = ["requested", "free", "missing", "total", "limit", "allocated", "unallocated", "outside", "process", "other_processes", "strangers"];
const NAMES = { unallocated: "Reserved, not allocated", outside: "Outside the allocator", process: "This process", other_processes: "Other processes", strangers: "Nobody knows whose" };

/** Show an explanation; `onApply(change)` takes a remedy into the form. */
export function showFailure(element, answer, { onApply }) {
  element.hidden = false;
  fill(
    element,
    h("h2", {}, "Why it failed"),
    h("p", {}, sentence(answer.summary)),
    facts([...whereabouts(answer), ...BALANCE.filter((name) => answer.balance[name]?.bytes).map((name) => [NAMES[name] ?? words(name), bytesElement(answer.balance[name].bytes)])]),
    answer.causes.length > 0 && h("ol", { class: "causes" }, answer.causes.map(causeItem)),
    changes(answer),
    answer.growth && h("p", { class: "notice is-warn" }, `Memory grows: ${gib(answer.growth.first.bytes)} in line ${count(answer.growth.first_line)}, ${gib(answer.growth.last.bytes)} in line ${count(answer.growth.last_line)}, ${gib(answer.growth.bytes_per_step)} from one reading to the next.`),
    prediction(answer.prediction, onApply),
    answer.notes.map((text) => h("p", { class: "notice" }, sentence(text))),
    readNumbers(answer),
  );
  say(answer.summary);
}

function whereabouts({ speaker, release, engine, rank, gpu, line, place, num_failures: number }) {
  return [
    ["Told by", [engine, speaker, release].filter(Boolean).join(" · ")],
    ["Line", line === null ? null : count(line)],
    ["Rank", rank],
    ["GPU", gpu === null ? null : String(gpu)],
    ["Failures", number > 1 ? count(number) : null],
    ["Instant", place?.instant],
    ["Where", place?.what],
    ["Grows there", place === null ? null : place.terms.map(words).join(", ")],
  ];
}

function causeItem({ name, certainty, why }) {
  return h("li", {}, h("strong", {}, words(name)), " ", h("span", { class: `tag ${CERTAINTY[certainty] ?? ""}` }, certainty), " ", sentence(why));
}

function changes({ changes: all }) {
  if (all.length === 0) return null;
  return dataTable({
    caption: "What would have helped, the smallest first",
    columns: [
      { label: "Change", head: true, cell: (one) => [sentence(one.action), one.setting && h("div", {}, h("code", {}, one.setting))] },
      { label: "Against", cell: (one) => words(one.cause) },
      { label: "Frees", number: true, cell: (one) => (one.frees_bytes === null ? "–" : bytesElement(one.frees_bytes)) },
      { label: "Then it", cell: (one) => (one.fits === null ? h("span", { class: "muted" }, "cannot be told") : h("span", { class: `tag ${one.fits ? "is-fits" : "is-does_not_fit"}` }, one.fits ? "fits" : "does not fit")) },
    ],
    items: all,
  });
}

function prediction(predicted, onApply) {
  if (predicted === null) return h("p", { class: "muted" }, "Hand in its launch too, or say that the form below is what ran, and what was predicted stands beside what was read.");
  const remedies = h("div", { class: "scroll" });
  const panel = h("div", {}, remedies);
  if (predicted.fit.verdict !== "fits") showRemedies(panel, remedies, predicted.fit, { onApply, isLooking: false });
  return [
    predicted.comparisons.length > 0 &&
      dataTable({
        caption: "Predicted beside read",
        columns: [
          { label: "Quantity", head: true, cell: (one) => words(one.quantity) },
          { label: "Predicted", number: true, cell: (one) => amount(one, one.predicted) },
          { label: "Interval", number: true, cell: ({ low, high, ...one }) => [amount(one, low), " – ", amount(one, high)] },
          { label: "Read", number: true, cell: (one) => [one.is_lower_bound && "at least ", amount(one, one.value)] },
          { label: "It lies", cell: (one) => (one.agreement === "inside" ? "inside" : `${one.agreement} the interval`) },
        ],
        items: predicted.comparisons,
      }),
    predicted.tensors.length > 0 && h("p", {}, "Of the requested size: ", predicted.tensors.map((one) => [h("strong", {}, one.name), ` (${one.formula}) `])),
    predicted.available_bytes !== null && h("p", {}, "The GPU had ", bytesElement(predicted.available_bytes), " for this process."),
    predicted.notes.map((text) => h("p", { class: "notice" }, sentence(text))),
    panel,
  ];
}

function amount({ quantity }, value) {
  return quantity.includes("tokens") ? count(value) : bytesElement(value);
}

function readNumbers({ read }) {
  if (read.length === 0) return null;
  return h(
    "details",
    {},
    h("summary", {}, `Every number that was read (${read.length})`),
    dataTable({
      caption: "Numbers of the log, with their lines",
      columns: [
        { label: "Quantity", head: true, cell: (one) => words(one.quantity) },
        { label: "As printed", number: true, cell: (one) => h("span", { title: one.quantity.endsWith("_bytes") ? exact(one.value) : null }, one.text) },
        { label: "Line", number: true, cell: (one) => (one.line === null ? "–" : count(one.line)) },
      ],
      items: read,
    }),
  );
}
