// A text field with suggestions, after the ARIA pattern "editable combobox with list autocomplete": anything may be typed.
import { fill, h } from "./dom.js";

const SHOWN = 60;
let made = 0;

/**
 * Make `input` a combobox over `options()`, which returns `[{ value, note, also }]`: `also` are words that find it too.
 * `onChoose(value)` is called when one is taken; typing sends the input's own events.
 */
export function combobox(input, { options, onChoose }) {
  const list = h("ul", { class: "combo-list", id: `combo-list-${(made += 1)}`, role: "listbox", hidden: true, "aria-label": "Suggestions" });
  input.parentElement.append(list);
  Object.entries({ role: "combobox", "aria-autocomplete": "list", "aria-expanded": "false", "aria-controls": list.id }).forEach(
    ([name, value]) => input.setAttribute(name, value),
  );
  let active = -1;

  const isOpen = () => !list.hidden;
  const close = () => {
    list.hidden = true;
    active = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };
  const mark = (index) => {
    active = index;
    [...list.children].forEach((item, place) => item.setAttribute("aria-selected", String(place === index)));
    const item = list.children[index];
    if (item === undefined) return input.removeAttribute("aria-activedescendant");
    input.setAttribute("aria-activedescendant", item.id);
    item.scrollIntoView({ block: "nearest" });
  };
  const take = (value) => {
    input.value = value;
    close();
    onChoose(value);
  };
  const open = (text) => {
    const found = matching(options(), text).slice(0, SHOWN);
    fill(
      list,
      found.map((one, place) =>
        h(
          "li",
          {
            id: `${list.id}-${place}`,
            role: "option",
            "aria-selected": "false",
            onpointerdown: (event) => (event.preventDefault(), take(one.value)),
          },
          h("span", {}, one.value),
          h("span", { class: "muted" }, one.note),
        ),
      ),
    );
    list.hidden = found.length === 0;
    input.setAttribute("aria-expanded", String(isOpen()));
    mark(-1);
  };
  const keys = {
    ArrowDown: () => (isOpen() ? mark((active + 1) % list.children.length) : open("")),
    ArrowUp: () => isOpen() && mark((active <= 0 ? list.children.length : active) - 1),
    // Where nothing is marked, the text stands as it is typed, and Enter is the form's.
    Enter: () => isOpen() && (active >= 0 ? take(list.children[active].firstElementChild.textContent) : (close(), false)),
    Escape: () => isOpen() && (close(), true),
  };

  input.addEventListener("input", () => open(input.value));
  input.addEventListener("click", () => !isOpen() && open(""));
  input.addEventListener("focus", () => input.select());
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (keys[event.key] !== undefined && keys[event.key]() !== false) event.preventDefault();
  });
}

/** The options that have every word of `text`, those that start with it first. */
export function matching(options, text) {
  const sought = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (sought.length === 0) return options;
  const found = options.filter((one) => {
    const words = `${one.value} ${one.also ?? ""}`.toLowerCase();
    return sought.every((word) => words.includes(word));
  });
  const starts = (one) => (one.value.toLowerCase().startsWith(sought[0]) ? 0 : 1);
  return found.sort((left, right) => starts(left) - starts(right));
}
