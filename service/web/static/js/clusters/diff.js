// What storing an inventory would change, before it is stored.
const POOL = ["gpu", "gpus_per_node", "nvlink_island_size", "host_memory_bytes", "nvme_bytes", "network_bytes_per_second", "price_per_gpu_hour", "gpu_memory_bytes", "gpu_replicas", "num_nodes"];
const MEMORY = /^(\d+)(Ki|Mi|Gi|Ti)?B?$/;
const UNITS = { Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40 };

/** Return what differs between the stored pools and those that were pasted: `[{ what, change }]`. Pure, and tested. */
export function differences(before, after) {
  const old = new Map(before.map((pool) => [pool.name, pool]));
  const found = [];
  for (const pool of after) {
    const known = old.get(pool.name);
    old.delete(pool.name);
    if (known === undefined) found.push({ what: `pool ${pool.name}`, change: `new: ${sizeOf(pool)} × ${pool.gpus_per_node} ${pool.gpu}` });
    else found.push(...poolDifferences(known, pool));
  }
  for (const name of old.keys()) found.push({ what: `pool ${name}`, change: "removed" });
  return found;
}

function poolDifferences(known, pool) {
  const found = [];
  for (const name of POOL) {
    const [was, is] = [known[name] ?? null, pool[name] ?? null];
    if (exact(was) !== exact(is)) found.push(changed(`pool ${pool.name}, ${name}`, was ?? "not told", is ?? "not told"));
  }
  const old = new Map((known.nodes ?? []).map((node) => [node.name, node]));
  for (const node of pool.nodes ?? []) {
    const was = old.get(node.name);
    old.delete(node.name);
    if (was === undefined) found.push({ what: `node ${node.name}`, change: "new" });
    else found.push(...nodeDifferences(was, node));
  }
  for (const name of old.keys()) found.push({ what: `node ${name}`, change: "removed" });
  return found;
}

function nodeDifferences(was, node) {
  const parts = [
    [`node ${node.name}`, stateOf],
    [`node ${node.name}, holders`, holdersOf],
    [`node ${node.name}, MIG`, slicesOf],
  ];
  return parts.filter(([, of]) => of(was) !== of(node)).map(([what, of]) => changed(what, of(was), of(node)));
}

function changed(what, was, is) {
  return { what, change: `${was} → ${is}` };
}

/** Memory as a number of bytes, however it was written; anything else as it stands. */
function exact(value) {
  const [, number, unit] = MEMORY.exec(value) ?? [];
  return number === undefined ? value : Number(number) * (UNITS[unit] ?? 1);
}

function stateOf(node) {
  const used = node.allocated_gpus ?? (node.allocations ?? []).reduce((total, part) => total + part.num_gpus, 0);
  return `${used} used, ${node.state ?? "ready"}`;
}

function holdersOf(node) {
  const words = (node.allocations ?? []).map((part) => {
    const memory = exact(part.host_memory_bytes ?? 0);
    return `${part.holder} ${part.num_gpus}${part.gpu_indices ? ` (GPU ${part.gpu_indices.join(", ")})` : ""}${memory === 0 ? "" : ` and ${memory} B of the host`}`;
  });
  return words.join("; ") || "not told";
}

function slicesOf(node) {
  const words = (node.mig_slices ?? []).map((one) => `${one.allocated ?? 0} of ${one.total} ${one.profile} used`);
  return [`${node.mig_gpus ?? 0} GPUs in slices`, ...words].join(", ");
}

function sizeOf(pool) {
  return pool.nodes?.length ?? pool.num_nodes ?? 0;
}
