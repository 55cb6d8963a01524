// Building and finding elements. Text is always text here: nothing of an answer is ever read as HTML.

/** Return the element with this id; a page without it is a mistake of ours. */
export function byId(id) {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`this page has no #${id}`);
  return found;
}

/** Make an element: `h("a", { href: "/", class: "x", onclick: f }, "text", child)`. `null` and `false` are left out. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "data") Object.assign(element.dataset, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  add(element, children);
  return element;
}

/** Replace what is inside an element. */
export function fill(element, ...children) {
  element.replaceChildren();
  add(element, children);
  return element;
}

/** Say something to screen readers, without moving the focus. */
export function say(text) {
  byId("live").textContent = text;
}

/** Call `f` once it has not been called for `pause` milliseconds; `now()` does not wait, and `cancel()` drops the call. */
export function debounced(f, pause) {
  let timer = 0;
  const wait = (...values) => {
    clearTimeout(timer);
    timer = setTimeout(f, pause, ...values);
  };
  wait.cancel = () => clearTimeout(timer);
  wait.now = (...values) => {
    clearTimeout(timer);
    f(...values);
  };
  return wait;
}

/** Resolve once what was changed until now is on the screen. */
export function painted() {
  return new Promise((resolve) =>
    requestAnimationFrame(() => {
      // A message is handled after the frame that is being made now.
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = resolve;
      port2.postMessage(null);
    }),
  );
}

function add(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}
