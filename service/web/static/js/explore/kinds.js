// What somebody pasted or dropped: a command, a file of a launch, a model's config, or what a failed run said. Pure, and tested.
const FAILURES = [
  /out of memory/i,
  /OutOfMemoryError/,
  /\boom[-_ ]?kill/i,
  /OUT_OF_MEMORY/,
  /CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED/,
  /No available memory for the cache blocks/,
  /larger than the maximum number of tokens that can be stored in KV cache/,
  /(is|than) (less|larger) than .{0,40}KV cache|needed, which is larger than the available KV cache memory/i,
  /Not enough memory\. Please try to increase/,
  /Failed to allocate|unable to allocate|cannot allocate memory/i,
  /Killed process \d+/,
  /DefaultCPUAllocator/,
];
// In a document a failure is a state, and no word of a sentence: what Kubernetes and Slurm print of a run that was killed.
const STATE = /OOMKilled|"OUT_OF_MEMORY"/;
const COMMENT = /^\s*(#|\/\/)/;
const PAIR = /^\s*-?\s*["']?[\w.-]+["']?\s*:(\s|$)/;

/** Tell whether a text is what a run said that failed for memory; a comment of a launch may speak of it too. */
export function isFailure(text) {
  const lines = text.split("\n").filter((line) => !COMMENT.test(line)).map((line) => (PAIR.test(line) ? line.replace(/\s#.*/, "") : line));
  return parsed(text) !== null ? STATE.test(text) : FAILURES.some((sign) => lines.some((line) => sign.test(line)));
}

/** Return the name that a pasted text is sent under as a file, or null where it is a command. */
export function nameOfPasted(text) {
  const bare = text.trim();
  if (/^[[{]/.test(bare)) return "pasted.json";
  if (bare.startsWith("#!")) return "pasted.sh";
  if (/^(import \w|from [\w.]+ import )/m.test(bare)) return "pasted.py";
  return isDocument(bare) ? "pasted.yaml" : null;
}

/** Return the config.json or the recording that a text is, or null. */
export function configIn(text) {
  const read = parsed(text);
  return read !== null && !Array.isArray(read) && typeof read.model_type === "string" ? read : null;
}

/** Tell whether a text is a document of settings: JSON, or YAML with a key at the start of most of its lines. */
function isDocument(text) {
  if (parsed(text) !== null) return true;
  const lines = text.split("\n").filter((line) => line.trim() !== "" && !COMMENT.test(line) && line.trim() !== "---");
  const isKey = (line) => PAIR.test(line) || /^\s*- /.test(line);
  return lines.length > 0 && PAIR.test(lines[0]) && /^\S/.test(lines[0]) && lines.filter(isKey).length > lines.length * 0.8;
}

function parsed(text) {
  try {
    const read = JSON.parse(text);
    return read !== null && typeof read === "object" ? read : null;
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}
