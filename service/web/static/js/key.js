// The key of this tab: asked for where the API answers 401, kept in sessionStorage and nowhere else.
import { byId } from "./dom.js";
import { sentence } from "./format.js";

const NAME = "headroom.key";
const NO_KEY = "This is no key: a key has no spaces, and no signs but those of ASCII. Copy the whole of it as it was shown when it was made.";
let asking = null;

/** Tell whether a text can be sent as a key: a header carries what can be printed in ASCII, and no spaces. */
export function isKey(text) {
  return /^[\x21-\x7e]+$/.test(text);
}

/** Return the key that was given, or null. */
export function storedKey() {
  return sessionStorage.getItem(NAME);
}

/** Forget the key, and show the page as somebody without one sees it. */
export function forgetKey() {
  sessionStorage.removeItem(NAME);
  location.reload();
}

/** Ask for a key because of `problem`; true when one was given. Requests that fail at once share one dialog. */
export function askForKey(problem) {
  asking ??= open(problem).finally(() => (asking = null));
  return asking;
}

function open(problem) {
  const dialog = byId("key-dialog");
  const input = byId("key-input");
  byId("key-reason").textContent = sentence(problem.message);
  input.value = "";
  return new Promise((resolve) => {
    const given = new AbortController();
    const close = (key) => {
      given.abort();
      if (key !== null) sessionStorage.setItem(NAME, key);
      byId("forget-key").hidden = storedKey() === null;
      dialog.close();
      resolve(key !== null);
    };
    const give = (event) => {
      event.preventDefault();
      const key = input.value.trim();
      if (isKey(key)) close(key);
      else byId("key-reason").textContent = NO_KEY;
    };
    const { signal } = given;
    byId("key-form").addEventListener("submit", give, { signal });
    byId("key-cancel").addEventListener("click", () => close(null), { signal });
    dialog.addEventListener("cancel", (event) => (event.preventDefault(), close(null)), { signal });
    dialog.showModal();
  });
}
