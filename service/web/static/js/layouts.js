// Layouts and workloads in a line, as people write them in a ticket.
const DEGREES = [
  ["data_parallel", "DP"],
  ["tensor_parallel", "TP"],
  ["pipeline_parallel", "PP"],
  ["context_parallel", "CP"],
  ["expert_parallel", "EP"],
];

const NESTED = new Set(["lora", "offload"]);

/** "DP 8 · TP 2 · fsdp2, stage 3"; one GPU is "1 GPU". */
export function layoutWords(layout) {
  const degrees = DEGREES.filter(([name]) => (layout[name] ?? 1) > 1).map(([name, short]) => `${short} ${layout[name]}`);
  const shards = layout.zero_stage > 0 ? [`${layout.sharding}, stage ${layout.zero_stage}`] : [];
  return [...(degrees.length > 0 ? degrees : ["1 GPU"]), ...shards].join(" · ");
}

/** "train · full · bf16_mixed · 4 × 4096": what runs, its precision and its size. */
export function workloadWords(workload) {
  const precision = typeof workload.precision === "object" && workload.precision !== null ? (workload.precision.name ?? "own precision") : workload.precision;
  const isServing = workload.task === "serve";
  const words = isServing ? ["serve", workload.engine, workload.quantization ?? workload.weight_dtype] : ["train", workload.method, precision];
  const size = isServing
    ? `${workload.num_sequences} × (${workload.prompt_tokens} + ${workload.output_tokens ?? 0})`
    : `${workload.micro_batch_size ?? 1} × ${workload.sequence_length}`;
  return [...words.filter(Boolean), size].join(" · ");
}

/**
 * Return the address of the first page with a question on it, or null for one that has words which its form does not hold.
 */
export function exploreLink({ model, gpu, workload, layout }) {
  if (typeof model !== "string") return null;
  const query = new URLSearchParams({ model, task: workload.task });
  if (gpu) query.set("gpu", gpu);
  const parts = [
    ["workload", workload],
    ["layout", layout],
  ];
  return parts.every(([root, words]) => put(query, root, words)) ? `/?${query}` : null;
}

function put(query, path, words) {
  return Object.entries(words).every(([name, value]) => {
    if (name === "task" || value === null) return true;
    if (Array.isArray(value)) return value.length === 0 || (query.set(`${path}.${name}`, value.join(",")), true);
    if (typeof value !== "object") return query.set(`${path}.${name}`, String(value)), true;
    return NESTED.has(name) && put(query, `${path}.${name}`, value);
  });
}
