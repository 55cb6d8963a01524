// Files that somebody hands in, by choosing or by dropping them.
import { fill, h } from "./dom.js";

/** A box of files: `input` chooses them, `zone` takes what is dropped on it, `list` shows them with a button each that takes one back. */
export function fileBox({ zone, input, list, onChange = () => {} }) {
  let files = [];
  const show = () => {
    fill(list, files.map((file) => h("li", { class: "chip" }, h("code", {}, file.name), h("button", { type: "button", class: "quiet", "aria-label": `Leave out ${file.name}`, onclick: () => leave(file) }, "×"))));
    list.hidden = files.length === 0;
    onChange(files);
  };
  const leave = (gone) => {
    files = files.filter((file) => file !== gone);
    show();
    input.focus();
  };
  const add = (more) => {
    // The same name again is the file anew.
    const names = new Set([...more].map((file) => file.name));
    files = [...files.filter((file) => !names.has(file.name)), ...more];
    input.value = "";
    show();
  };
  input.addEventListener("change", () => add(input.files));
  zone.addEventListener("dragover", (event) => {
    event.preventDefault();
    zone.classList.add("is-over");
  });
  zone.addEventListener("dragleave", (event) => zone.contains(event.relatedTarget) || zone.classList.remove("is-over"));
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    zone.classList.remove("is-over");
    if (event.dataTransfer.files.length > 0) add(event.dataTransfer.files);
  });
  show();
  return { get: () => files, clear: () => ((files = []), show()) };
}

/** Return a file's text, or null where it is none. */
export async function textOf(file) {
  const bytes = await file.arrayBuffer();
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (error) {
    if (error instanceof TypeError) return null;
    throw error;
  }
}

/** Return a file's bytes as base64. */
export function base64Of(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}
