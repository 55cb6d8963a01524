// Every view has a permalink: the query of the address holds its state. Values are strings; absent is the default.

/** Return the state that the address holds, as a plain object of strings. */
export function readQuery() {
  return Object.fromEntries(new URLSearchParams(location.search));
}

/**
 * Write `state` into the address, and `hash` behind it. A step (`push`) can be gone back from; typing replaces the step that
 * it is part of.
 */
export function writeQuery(state, { push = false, hash = "" } = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(state)) {
    if (value !== null && value !== undefined && value !== "") query.set(name, String(value));
  }
  const text = query.toString();
  const url = `${location.pathname}${text && `?${text}`}${hash}`;
  if (url === location.pathname + location.search + location.hash) return;
  if (push) history.pushState(null, "", url);
  else history.replaceState(null, "", url);
}

/** Return what the path names below its page, or "" where it names nothing; what is no UTF-8 stays as it stands. */
export function nameInPath() {
  const text = location.pathname.split("/")[2] ?? "";
  try {
    return decodeURIComponent(text);
  } catch (error) {
    if (!(error instanceof URIError)) throw error;
    return text;
  }
}

/** Call `f(state)` when the reader goes back or forward. */
export function onNavigate(f) {
  window.addEventListener("popstate", () => f(readQuery()));
}

/** Return the filled-in controls of a form by name; a checkbox is "true" or absent. */
export function formState(form) {
  const state = {};
  for (const control of form.elements) {
    // What is disabled does not matter now, and is not part of the view.
    if (!control.name || control.type === "button" || control.type === "submit" || control.matches(":disabled")) continue;
    const value = control.type === "checkbox" ? (control.checked ? "true" : "") : control.type === "radio" && !control.checked ? null : control.value;
    if (value !== null && value !== "") state[control.name] = value;
  }
  return state;
}

/** Put a state into a form; a control that the state does not name gets the value it had in the page's source. */
export function fillForm(form, state) {
  for (const control of form.elements) {
    if (!control.name || control.matches(":disabled")) continue;
    const given = state[control.name];
    if (control.type === "checkbox") control.checked = given === undefined ? control.defaultChecked : given === "true";
    else if (control.type === "radio") control.checked = given === undefined ? control.defaultChecked : given === control.value;
    else if (control.tagName === "SELECT") choose(control, given);
    else control.value = given ?? control.defaultValue;
  }
}

/** Put a state into a form that is asked by the page alone: a choice that it does not offer is left out, and returned as `[[name, value]]`. */
export function fillView(form, state) {
  const isOffered = (name, value) => form.elements.namedItem(name) === null || [...form.elements.namedItem(name).options].some((option) => option.value === value);
  const [known, unknown] = [[], []];
  for (const pair of Object.entries(state)) (isOffered(...pair) ? known : unknown).push(pair);
  fillForm(form, Object.fromEntries(known));
  return unknown;
}

function choose(select, given) {
  const initial = [...select.options].find((option) => option.defaultSelected)?.value ?? "";
  const value = given ?? initial;
  // A value that the list lacks, such as an object from a remedy or a link, is offered as it stands.
  if (![...select.options].some((option) => option.value === value)) select.add(new Option(value, value));
  select.value = value;
}
