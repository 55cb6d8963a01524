// Tables that people read: a caption, headed columns, one row for each item, and pages of a list.
import { h } from "./dom.js";

/**
 * Return a table. A column is `{ label, cell(item), number, head, title }`: `cell` returns text or elements, `number` sets
 * it to the right, `head` makes it the row's heading. `rowOf(row, item)` may add to a row. One that `stacks` has a card for
 * each row on a narrow screen.
 */
export function dataTable({ caption, columns, items, rowOf = () => {}, stacks = false }) {
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h(
      "table",
      { class: stacks ? "data stacks" : "data" },
      h("caption", {}, caption),
      h("thead", {}, h("tr", {}, columns.map((column) => heading(column)))),
      h(
        "tbody",
        {},
        items.map((item) => {
          const row = h("tr", {}, columns.map((column) => cell(column, item)));
          rowOf(row, item);
          return row;
        }),
      ),
    ),
  );
}

/** Return pairs of words and what they say as a description list; a pair whose value is null is left out. */
export function facts(pairs) {
  const said = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return h("dl", { class: "facts" }, said.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

/** Return one figure with its name, as at the top of a page; `note` says what it is of. */
export function figure(name, value, note = "") {
  return h("div", { class: "figure" }, h("span", { class: "figure-name" }, name), h("strong", { class: "figure-value" }, value), note && h("span", { class: "muted" }, note));
}

function heading({ label, number, title }) {
  return h("th", { scope: "col", class: number ? "is-number" : null, title }, label);
}

function cell({ label, number, head, cell: of }, item) {
  const attributes = { class: number ? "is-number" : null, ...(head ? { scope: "row" } : { "data-label": label }) };
  return h(head ? "th" : "td", attributes, of(item));
}
