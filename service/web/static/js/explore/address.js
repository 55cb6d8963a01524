// The address of the page: the question is its query, and what is too long for one goes along behind the #.
import { writeQuery } from "../state.js";
import { packed, unpacked } from "./fragment.js";

// Firefox takes addresses of a MiB, Chromium of two.
const MOST_LETTERS = 1_000_000;

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
const isName = (value) => typeof value === "string" || isObject(value);
const isQuestion = (value) => isObject(value) && isObject(value.workload) && isName(value.model) && isName(value.gpu);

/** What may go along: `{ config, kept }`, a text and questions of the API. */
function isExtra({ config = "", kept = [] }) {
  return typeof config === "string" && Array.isArray(kept) && kept.every(isQuestion);
}

/** Return `keep(state, extra, step)` and `read()`; `onPacked(letters, isKept)` is told how long `extra` makes the address. */
export function makeAddress({ onPacked }) {
  let state = {};
  let hash = "";
  let told = "{}";
  const pack = async (extra, text) => {
    const letters = await packed(extra);
    if (text !== told) return;
    hash = letters.length > MOST_LETTERS ? "" : letters;
    writeQuery(state, { hash });
    onPacked(letters.length, hash === letters);
  };
  return {
    /** Write a state, and what goes along with it as soon as it is packed. */
    keep(now, extra, step) {
      state = now;
      const text = JSON.stringify(extra);
      writeQuery(state, { ...step, hash });
      if (text === told) return;
      told = text;
      pack(extra, text);
    },
    /** Return what the address has behind its #; throws a Problem where that cannot be read. */
    async read() {
      [hash, told] = ["", "{}"];
      const whole = location.hash;
      const extra = await unpacked(whole, isExtra);
      if (Object.keys(extra).length === 0) return extra;
      [hash, told] = [whole, JSON.stringify(extra)];
      onPacked(whole.length, true);
      return extra;
    },
  };
}
