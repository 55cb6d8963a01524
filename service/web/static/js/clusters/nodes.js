// From an inventory and its reservations to what each single GPU is: free, used, reserved, drained, or cut into slices.

/** What a GPU may be, in the order of bars and legends. */
export const STATES = ["free", "used", "reserved", "sliced", "drained"];
export const STATE_WORDS = { free: "free", used: "used", reserved: "reserved", sliced: "in MIG slices", drained: "drained" };

/** Return every node of a pool, also those that are only counted, with a cell for each GPU: `{ name, state, source, seenAt, unavailable, cells, slices, free }`. */
export function nodesOf(pool, reservations) {
  const promised = promisedIn(pool.name, reservations);
  const named = pool.nodes ?? Array.from({ length: pool.num_nodes ?? 0 }, (_, index) => counted(`${pool.name}-${index + 1}`));
  return named.map((node) => {
    const cells = cellsOf(node, pool.gpus_per_node, promised.get(node.name) ?? []);
    const { name, state, source = null, observed_at: seenAt = null, unavailable = null } = node;
    return { name, state, source, seenAt, unavailable, cells, slices: node.mig_slices, free: cells.filter((cell) => cell.state === "free").length };
  });
}

/** Count the GPUs of a pool, or of several, by state; they add up to all there are. */
export function totals(pools) {
  const sum = (of) => pools.reduce((total, pool) => total + of(pool), 0);
  const found = {
    free: sum((pool) => pool.free_gpus),
    reserved: sum((pool) => pool.reserved_gpus),
    sliced: sum((pool) => pool.mig_gpus),
    drained: sum((pool) => pool.drained_gpus),
  };
  const all = sum((pool) => pool.total_gpus);
  return { ...found, used: Math.max(0, all - found.free - found.reserved - found.sliced - found.drained), all };
}

/** Say what a node has, in one line. */
export function nodeWords(node) {
  const number = (state) => node.cells.filter((cell) => cell.state === state).length;
  const parts = STATES.filter((state) => number(state) > 0).map((state) => `${number(state)} ${STATE_WORDS[state]}`);
  const closed = node.unavailable === null ? node.state : `${node.state} (${node.unavailable})`;
  const seen = node.source === null ? "" : ` · ${node.source}${node.seenAt === null ? "" : `, seen ${node.seenAt.slice(0, 16).replace("T", " ")} UTC`}`;
  return `${node.name}: ${parts.join(", ")}${node.state === "ready" ? "" : ` · ${closed}`}${seen}`;
}

/** Return who holds GPUs of a node: `[{ holder, state, num, until }]`. */
export function holdersOf(node) {
  const found = new Map();
  for (const cell of node.cells) {
    if (cell.state !== "used" && cell.state !== "reserved") continue;
    const key = `${cell.state} ${cell.holder ?? ""}`;
    const one = found.get(key) ?? { holder: cell.holder, state: cell.state, num: 0, until: cell.until };
    one.num += 1;
    found.set(key, one);
  }
  return [...found.values()];
}

function counted(name) {
  return { name, allocated_gpus: 0, state: "ready", allocations: [], mig_gpus: 0, mig_slices: [] };
}

function promisedIn(pool, reservations) {
  const found = new Map();
  for (const reservation of reservations) {
    for (const share of reservation.gpus) {
      if (share.pool !== pool || share.mig_profile !== null) continue;
      const claim = { state: "reserved", holder: reservation.holder, until: reservation.expires_at };
      const list = found.get(share.node) ?? [];
      list.push({ claim, num: share.num_gpus, indices: share.gpu_indices });
      found.set(share.node, list);
    }
  }
  return found;
}

/** GPUs that are named keep their place; of the others only the number is known, and they fill up from the left. */
function cellsOf(node, size, promised) {
  const cells = new Array(size).fill(null);
  const told = node.allocations.map((part) => ({ claim: { state: "used", holder: part.holder }, num: part.num_gpus, indices: part.gpu_indices }));
  const untold = node.allocated_gpus - told.reduce((total, part) => total + part.num, 0);
  const claims = [...told, { claim: { state: "used", holder: null }, num: Math.max(0, untold), indices: null }, ...promised];
  for (const { claim, indices } of claims) for (const index of indices ?? []) if (index < size) cells[index] = claim;
  for (let left = node.mig_gpus, index = size - 1; left > 0 && index >= 0; index -= 1) {
    if (cells[index] !== null) continue;
    cells[index] = { state: "sliced", holder: null };
    left -= 1;
  }
  for (const { claim, num, indices } of claims) if (indices === null) place(cells, claim, num);
  const rest = { state: node.state === "ready" ? "free" : "drained", holder: null };
  return cells.map((cell) => cell ?? rest);
}

function place(cells, claim, num) {
  let left = num;
  for (let index = 0; index < cells.length && left > 0; index += 1) {
    if (cells[index] !== null) continue;
    cells[index] = claim;
    left -= 1;
  }
}
