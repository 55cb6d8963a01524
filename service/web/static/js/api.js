// Asking our own JSON API: problems become errors that say what is wrong, a key is asked for once, streams resume.
import { askForKey, storedKey } from "./key.js";

const RETRY_MS = 2000;
// No server, its time-out, and its limit: refusals that pass.
const PASSING = new Set([0, 408, 429]);

/** What the API refused, in its own words (RFC 9457). `errors` name the offending values: `[{ field, message }]`. */
export class Problem extends Error {
  constructor({ status, type = "", title = "", detail = "", errors = [], retryAfterMs = 0 }) {
    super(detail || title || `the server answered ${status}`);
    this.name = "Problem";
    Object.assign(this, { status, type, title, detail, errors, retryAfterMs });
  }
}

/** Send a request and return the decoded answer. Throws a Problem, or an AbortError when `signal` says so. */
export async function ask(path, { method = "GET", body, headers = {}, signal } = {}) {
  const answer = await send(path, { method, body, headers, signal });
  return answer.status === 204 ? null : answer.json();
}

/** The same, with the answer's headers: `{ value, headers, status }`. */
export async function askWhole(path, options = {}) {
  const answer = await send(path, options);
  return { value: answer.status === 204 ? null : await answer.json(), headers: answer.headers, status: answer.status };
}

/** Return every item of a list, page by page; at most `most` of them. */
export async function askAll(path, { signal, most = 5000, limit = 200 } = {}) {
  const items = [];
  let cursor = null;
  do {
    const url = new URL(path, location.origin);
    url.searchParams.set("limit", String(limit));
    if (cursor !== null) url.searchParams.set("cursor", cursor);
    const page = await ask(url.pathname + url.search, { signal });
    items.push(...page.items);
    cursor = page.next_cursor;
  } while (cursor !== null && items.length < most);
  return items;
}

/**
 * Return a function that runs `f(signal, …)` and aborts the run before; a run that was overtaken returns `undefined`. Its
 * `stop()` aborts the run without another, and `isRunning()` tells whether there is one.
 */
export function latest(f) {
  let running = null;
  const run = async (...values) => {
    running?.abort();
    const mine = new AbortController();
    running = mine;
    try {
      const found = await f(mine.signal, ...values);
      return mine.signal.aborted ? undefined : found;
    } catch (error) {
      if (mine.signal.aborted) return undefined;
      throw error;
    } finally {
      if (running === mine) running = null;
    }
  };
  run.stop = () => running?.abort();
  run.isRunning = () => running !== null;
  return run;
}

/**
 * Follow server-sent events until `signal` aborts or `onEvent` returns true, which says that the story is over.
 * Events are `{ id, kind, data }`. A broken connection is taken up after the last event; EventSource could not send a key.
 */
export async function follow(path, { onEvent, onTrouble = () => {}, signal }) {
  let last = null;
  while (!signal.aborted) {
    let wait = RETRY_MS;
    try {
      const headers = { accept: "text/event-stream", ...(last === null ? {} : { "last-event-id": last }) };
      const answer = await send(path, { headers, signal });
      for await (const event of eventsOf(answer.body)) {
        if (event.id !== null) last = event.id;
        if (onEvent(event) === true) return;
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Problem && error.status < 500 && !PASSING.has(error.status)) throw error;
      wait = Math.max(wait, error.retryAfterMs ?? 0);
      onTrouble(error);
    }
    await pause(wait, signal);
  }
}

/** Return a file of the server's, and the name that it gives it: a link could not send a key. */
export async function fetchFile(path) {
  const answer = await send(path, { headers: { accept: "application/octet-stream" } });
  const [, name] = /filename="([^"]+)"/.exec(answer.headers.get("content-disposition") ?? "") ?? [null, path.split("/").at(-1)];
  return { name, blob: await answer.blob() };
}

async function send(path, { method = "GET", body, headers = {}, signal } = {}) {
  const request = () => {
    const key = storedKey();
    return fetch(path, {
      method,
      signal,
      headers: {
        accept: "application/json",
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...(key === null ? {} : { authorization: `Bearer ${key}` }),
        ...headers,
      },
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store",
      credentials: "same-origin",
    });
  };
  let answer = await reached(request, signal);
  while (!answer.ok) {
    const problem = await problemOf(answer);
    if (answer.status !== 401 || !(await askForKey(problem))) throw problem;
    answer = await reached(request, signal);
  }
  return answer;
}

async function reached(request, signal) {
  try {
    return await request();
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem({ status: 0, title: "The server cannot be reached", detail: "the server cannot be reached; is it still running?" });
  }
}

async function problemOf(answer) {
  const found = await answer.json().catch(() => ({}));
  const seconds = Number(answer.headers.get("retry-after") ?? 0);
  return new Problem({ ...found, status: answer.status, retryAfterMs: Number.isFinite(seconds) ? seconds * 1000 : 0 });
}

async function* eventsOf(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const blocks = (rest + value).split(/\r?\n\r?\n/);
      rest = blocks.pop();
      for (const block of blocks) {
        const event = parsed(block);
        if (event !== null) yield event;
      }
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

function parsed(block) {
  const event = { id: null, kind: "message", data: "" };
  for (const line of block.split(/\r?\n/)) {
    const [, name, value] = /^([a-z]+): ?(.*)$/.exec(line) ?? [];
    if (name === "id") event.id = value;
    else if (name === "event") event.kind = value;
    else if (name === "data") event.data += event.data ? `\n${value}` : value;
  }
  return event.data === "" ? null : { ...event, data: JSON.parse(event.data) };
}

function pause(milliseconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}
