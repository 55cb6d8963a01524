// Reading an inventory that was pasted: what is none is told apart, and where, before it is compared with what is stored.
const LISTS = { nodes: "node", allocations: "allocation", mig_slices: "MIG slice" };

/** Return `{ name, pools }` of a text, or `{ problem }` in words; `cluster` is the one that the page is of, or null. */
export function inventoryIn(text, cluster) {
  if (text.trim() === "") return { problem: "There is no inventory yet: paste one, or read it from a file." };
  let read;
  try {
    read = JSON.parse(text);
  } catch (error) {
    return { problem: `This is no JSON: ${error.message}` };
  }
  if (!isObject(read)) return { problem: "An inventory is an object with a name and pools." };
  const name = read.name ?? cluster;
  if (typeof name !== "string" || name === "") return { problem: "The inventory has no name; say which cluster it is of." };
  if (cluster !== null && name !== cluster) return { problem: `This is the inventory of ${name}, and the page is of ${cluster}: take its name out to store it here, or store it from the list of clusters.` };
  const problem = isFilled(read.pools) ? listProblem(read.pools, "pool", "The inventory") : "The inventory has no list of pools.";
  return problem === null ? { name, pools: read.pools } : { problem };
}

/** Return what keeps a list from being one of named things, and the lists in them; null where nothing does. */
function listProblem(items, kind, where) {
  if (!Array.isArray(items)) return `${where}: what should be a list of ${kind}s is none.`;
  for (const [index, item] of items.entries()) {
    const place = `${where}, ${kind} ${index + 1}`;
    if (!isObject(item)) return `${place} is no object.`;
    if ((kind === "pool" || kind === "node") && (typeof item.name !== "string" || item.name === "")) return `${place} has no name.`;
    for (const [name, inner] of Object.entries(LISTS)) {
      if (item[name] === undefined || item[name] === null) continue;
      const problem = listProblem(item[name], inner, place);
      if (problem !== null) return problem;
    }
  }
  return null;
}

function isFilled(pools) {
  return Array.isArray(pools) && pools.length > 0;
}

function isObject(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}
