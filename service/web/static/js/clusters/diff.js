// What storing an inventory would change, before it is stored.

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
  for (const name of ["gpu", "gpus_per_node", "nvlink_island_size", "price_per_gpu_hour", "num_nodes"]) {
    const [was, is] = [known[name] ?? null, pool[name] ?? null];
    if (was !== is) found.push({ what: `pool ${pool.name}, ${name}`, change: `${was ?? "not told"} → ${is ?? "not told"}` });
  }
  const old = new Map((known.nodes ?? []).map((node) => [node.name, node]));
  for (const node of pool.nodes ?? []) {
    const was = old.get(node.name);
    old.delete(node.name);
    if (was === undefined) found.push({ what: `node ${node.name}`, change: "new" });
    else if (heldOn(was) !== heldOn(node) || (was.state ?? "ready") !== (node.state ?? "ready")) found.push({ what: `node ${node.name}`, change: `${stateOf(was)} → ${stateOf(node)}` });
  }
  for (const name of old.keys()) found.push({ what: `node ${name}`, change: "removed" });
  return found;
}

function heldOn(node) {
  return node.allocated_gpus ?? (node.allocations ?? []).reduce((total, part) => total + part.num_gpus, 0);
}

function stateOf(node) {
  return `${heldOn(node)} used, ${node.state ?? "ready"}`;
}

function sizeOf(pool) {
  return pool.nodes?.length ?? pool.num_nodes ?? 0;
}
