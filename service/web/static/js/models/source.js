// Files of a model as the API takes it: headers and configs are read here, and no tensor leaves the machine.
import { Problem } from "../api.js";
import { textOf } from "../files.js";
import { ggufOf, Unfit } from "./gguf.js";

const INDEX = "model.safetensors.index.json";
const QUANTIZATION = "hf_quant_config.json";
const METADATA = "__metadata__";
const MOST_HEADER = 100_000_000;
// A longer one is told by its sums, so that a question stays within what a server reads.
const MOST_LETTERS = 512 * 1024;

/** A refusal of files, in words. */
export class Unreadable extends Problem {
  constructor(message) {
    super({ status: 0, title: "These files are no model", detail: message, errors: [{ field: "files", message }] });
  }
}

/** Tell whether a file is one of a model's own. */
export function isWeights({ name }) {
  return /\.(gguf|safetensors)$/i.test(name);
}

/** Return the `source` of a model: `{ gguf }`, or `{ hf_config }` with what its safetensors files hold. */
export async function sourceOf(files) {
  const named = (pattern) => files.filter((file) => pattern.test(file.name));
  const gguf = named(/\.gguf$/i);
  if (gguf.length > 0) return { gguf: await unlessUnfit(() => ggufOf(gguf)) };
  const shards = named(/\.safetensors$/i);
  const index = files.find((file) => file.name === INDEX);
  const quantization = files.find((file) => file.name === QUANTIZATION);
  const config = files.find((file) => file.name === "config.json") ?? files.find((file) => /\.json$/i.test(file.name) && file !== index && file !== quantization);
  if (config === undefined) throw new Unreadable("A model is a config.json, with its safetensors files or their index where they are to be checked; or a GGUF file.");
  const source = { hf_config: await objectIn(config) };
  if (quantization !== undefined) source.hf_config.quantization_config ??= await objectIn(quantization);
  if (index !== undefined) source.safetensors_index = await objectIn(index);
  else if (shards.length > 0) Object.assign(source, await tensorsOf(shards));
  return source;
}

async function tensorsOf(shards) {
  const headers = await Promise.all(shards.map((file) => unlessUnfit(() => headerOf(file))));
  const tensors = headers.flatMap((header) => Object.entries(header).filter(([name]) => name !== METADATA));
  const merged = Object.fromEntries(tensors.map(([name, { dtype, shape }]) => [name, { dtype, shape }]));
  if (JSON.stringify(merged).length <= MOST_LETTERS) return { safetensors_header: merged };
  const total = tensors.reduce((sum, [, { data_offsets: [start, end] }]) => sum + end - start, 0);
  return { safetensors_index: { metadata: { total_size: total }, weight_map: {} } };
}

/** The JSON header of a safetensors file: eight bytes say how long it is. */
async function headerOf(file) {
  const start = await file.slice(0, 8).arrayBuffer();
  const length = start.byteLength === 8 ? Number(new DataView(start).getBigUint64(0, true)) : 0;
  if (length < 2 || length > MOST_HEADER || length > file.size - 8) throw new Unfit(`${file.name} is no safetensors file: its header would have ${length} bytes.`);
  return parsed(file.name, await file.slice(8, 8 + length).text());
}

async function objectIn(file) {
  const text = await textOf(file);
  return unlessUnfit(() => parsed(file.name, text ?? ""));
}

function parsed(name, text) {
  try {
    const read = JSON.parse(text);
    if (read !== null && typeof read === "object" && !Array.isArray(read)) return read;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw new Unfit(`${name} is not JSON: ${error.message}.`);
  }
  throw new Unfit(`${name} must hold a JSON object.`);
}

async function unlessUnfit(f) {
  try {
    return await f();
  } catch (error) {
    throw error instanceof Unfit ? new Unreadable(error.message) : error;
  }
}
