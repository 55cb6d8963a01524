// What a time range makes of clusters: which were updated in it, and what is free once the reservations that end in it are over.
import { count } from "../format.js";
import { nodesOf } from "./nodes.js";

const HOUR_MS = 3_600_000;
const WORDS = { 1: "hour", 24: "day", 168: "week", 720: "30 days" };

/** Say a number of hours as the choices of the page do. */
function rangeWords(hours) {
  return WORDS[hours] ?? `${count(Number(hours))} hours`;
}

/** Say how many clusters were updated in a range. */
export function listWords(hours, recent, all) {
  const rest = recent < all ? "; the others may have changed since" : "";
  return `${count(recent)} of ${count(all)} ${recent === 1 ? "was" : "were"} updated in the last ${rangeWords(hours)}${rest}.`;
}

/** Return the clusters that were updated in the last `hours`; all of them where none are said. Pure, and tested. */
export function updatedIn(clusters, hours, now = Date.now()) {
  if (!hours) return clusters;
  const since = now - Number(hours) * HOUR_MS;
  return clusters.filter((cluster) => Date.parse(cluster.updated_at) >= since);
}

/** Return a cluster as it is `hours` from now if nothing begins: `{ pools, reservations, ending }`. Pure, and tested. */
export function foresee(pools, reservations, hours, now = Date.now()) {
  const until = now + Number(hours) * HOUR_MS;
  const isEnding = (one) => Boolean(hours) && one.expires_at !== null && Date.parse(one.expires_at) <= until;
  const left = reservations.filter((one) => !isEnding(one));
  return { pools: pools.map((pool) => released(pool, reservations, left)), reservations: left, ending: reservations.filter(isEnding) };
}

/** Say what a range frees, in one sentence; nothing for now. */
export function foreseenWords(hours, { pools, ending }, before) {
  if (!hours) return "";
  const free = (all) => all.reduce((total, pool) => total + pool.free_gpus, 0);
  const more = free(pools) - free(before);
  if (ending.length === 0) return `No reservation ends within ${article(hours)}.`;
  return `Within ${article(hours)} ${ending.length === 1 ? "1 reservation ends" : `${count(ending.length)} reservations end`}, and ${more === 1 ? "1 more GPU is" : `${count(more)} more GPUs are`} free unless it is reserved anew.`;
}

function article(hours) {
  const words = rangeWords(hours);
  return /^\d/.test(words) ? words : `${words === "hour" ? "an" : "a"} ${words}`;
}

/** Return a pool with the GPUs that reservations leave, on nodes that are ready and on others. */
function released(pool, before, after) {
  const number = (reservations, state) => nodesOf(pool, reservations).reduce((total, node) => total + node.cells.filter((cell) => cell.state === state).length, 0);
  const more = (state) => (before.length === after.length ? 0 : number(after, state) - number(before, state));
  return { ...pool, free_gpus: pool.free_gpus + more("free"), reserved_gpus: pool.reserved_gpus + more("reserved"), drained_gpus: pool.drained_gpus + more("drained") };
}
