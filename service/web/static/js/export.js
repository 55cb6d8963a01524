// Taking a view along: CSV, JSON, PNG, a Markdown block for a ticket, and the link itself.
import { h, say } from "./dom.js";

/**
 * Return a row of buttons. Each source is a function that is asked when its button is pressed, and may be absent:
 * `csv()` returns `{ columns: [names], rows: [[values]] }`, `json()` any value, `png()` a data URL, `markdown()` a string.
 */
export function exportBar({ name, csv, json, png, markdown }) {
  const button = (label, title, f) => h("button", { type: "button", class: "quiet", title, onclick: f }, label);
  return h(
    "div",
    { class: "export", role: "group", "aria-label": "Export" },
    markdown && copyButton("Copy Markdown", markdown, "A block for a ticket"),
    copyButton("Copy link", () => location.href, "A link to this very view"),
    csv && button("CSV", "Download the table", () => save(`${name}.csv`, "text/csv", csvOf(csv()))),
    json && button("JSON", "Download the API's answer", () => save(`${name}.json`, "application/json", `${JSON.stringify(json(), null, 2)}\n`)),
    png && button("PNG", "Download the picture", () => saveUrl(`${name}.png`, png())),
  );
}

/** Return a button that copies what `text()` returns and says so. */
export function copyButton(label, text, title = "Copy") {
  const element = h("button", { type: "button", class: "quiet", title }, label);
  element.addEventListener("click", async () => {
    await copy(text());
    element.textContent = "Copied";
    say("Copied");
    setTimeout(() => (element.textContent = label), 1500);
  });
  return element;
}

/** Return a button that saves what `file()` returns, `{ name, text }`. */
export function downloadButton(file) {
  const download = () => {
    const { name, text } = file();
    save(name, "text/plain", text.endsWith("\n") ? text : `${text}\n`);
  };
  return h("button", { type: "button", class: "quiet", title: "Save this file", onclick: download }, "Download");
}

/** Return a table as CSV (RFC 4180); a cell that a spreadsheet would run as a formula is quoted as text. */
export function csvOf({ columns, rows }) {
  return [columns, ...rows].map((row) => row.map(csvCell).join(",")).join("\r\n") + "\r\n";
}

/** Return text as Markdown shows it: a name that a stranger gave is no link, no picture, no cell and no line of its own. */
export function plain(text) {
  return String(text).replace(/[\\`*[\]<>|~&!]/g, "\\$&").replace(/[\r\n]+/g, " ");
}

/** Return a Markdown template in which every value is plain. */
export function markdown(texts, ...values) {
  return String.raw({ raw: texts }, ...values.map(plain));
}

/** Return a table as Markdown. */
export function markdownTable(columns, rows) {
  const line = (cells) => `| ${cells.map(plain).join(" | ")} |`;
  return [line(columns), line(columns.map(() => "---")), ...rows.map(line)].join("\n");
}

function csvCell(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return String(value);
  const text = /^[=+\-@\t\r\n]/.test(value) ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

async function copy(text) {
  if (navigator.clipboard !== undefined && window.isSecureContext) return navigator.clipboard.writeText(text);
  // Plain HTTP on another host than this one has no clipboard API; the old way still works there.
  const area = h("textarea", { class: "unseen", "aria-hidden": "true" });
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

function save(name, type, text) {
  saveBlob(name, new Blob([text], { type }));
}

/** Have the browser save a file. */
export function saveBlob(name, blob) {
  const url = URL.createObjectURL(blob);
  saveUrl(name, url);
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

function saveUrl(name, href) {
  h("a", { href, download: name }).click();
}
