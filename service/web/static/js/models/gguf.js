// The header of a GGUF file, read where the file is: its metadata and tensors are all that is ever sent.
// ggml, docs/gguf.md; what is kept is what `headroom models push` keeps.
const MOST_BYTES = 128 * 2 ** 20;
const FIRST_BYTES = 2 ** 20;
const MOST_TEXT = 4096;
const MOST_ITEMS = 1024;
const NUMBERS = { 0: ["getUint8", 1], 1: ["getInt8", 1], 2: ["getUint16", 2], 3: ["getInt16", 2], 4: ["getUint32", 4], 5: ["getInt32", 4], 6: ["getFloat32", 4], 7: ["getUint8", 1], 10: ["getBigUint64", 8], 11: ["getBigInt64", 8], 12: ["getFloat64", 8] };
const [BOOL, TEXT, ARRAY] = [7, 8, 9];

/** Names of the formats of tensors by their numbers in a file (`enum ggml_type`). */
export const TYPES = { 0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 9: "Q8_1", 10: "Q2_K", 11: "Q3_K", 12: "Q4_K", 13: "Q5_K", 14: "Q6_K", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 29: "IQ1_M", 30: "BF16", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4", 40: "NVFP4", 41: "Q1_0" };

/** A file that is none that can be read, in words. */
export class Unfit extends Error {}

/** Return `{ metadata, tensors }` of the parts of one model, whole or split. */
export async function ggufOf(files) {
  const parts = await Promise.all(files.map(headerOf));
  const number = ({ metadata }) => metadata["split.no"] ?? 0;
  parts.sort((left, right) => number(left) - number(right));
  const count = parts[0].metadata["split.count"] ?? 1;
  if (parts.length !== count || parts.some((part, place) => number(part) !== place)) throw new Unfit(`This model has ${count} parts, and ${parts.length} were handed in: all are needed.`);
  const isKept = ([key, value]) => !/^(tokenizer|split)\./.test(key) && (typeof value !== "string" || value.length <= MOST_TEXT);
  return { metadata: Object.fromEntries(Object.entries(parts[0].metadata).filter(isKept)), tensors: parts.flatMap((part) => part.tensors) };
}

/** Read more and more of a file until its header is whole: tokens are most of it. */
async function headerOf(file) {
  for (let size = FIRST_BYTES; ; size *= 4) {
    const most = Math.min(size, file.size, MOST_BYTES);
    try {
      return parse(new Reader(await file.slice(0, most).arrayBuffer()));
    } catch (error) {
      if (error instanceof Unfit) throw new Unfit(`${file.name} is no GGUF file that can be read: ${error.message}.`);
      if (!(error instanceof RangeError)) throw error;
      if (most === file.size || most === MOST_BYTES) throw new Unfit(`${file.name} is no GGUF file that can be read: it ends within its header.`);
    }
  }
}

/** Numbers and texts, one after the other; past the end is a RangeError. */
class Reader {
  constructor(buffer) {
    this.view = new DataView(buffer);
    this.at = 0;
  }

  number(kind) {
    const [name, size] = NUMBERS[kind] ?? [];
    if (name === undefined) throw new Unfit(`a value is of the unknown type ${kind}`);
    const value = this.view[name](this.at, true);
    this.at += size;
    return typeof value === "bigint" ? Number(value) : kind === BOOL ? value !== 0 : value;
  }

  text() {
    const length = this.number(10);
    const bytes = new Uint8Array(this.view.buffer, this.at, length);
    this.at += length;
    return new TextDecoder().decode(bytes);
  }

  skip(size) {
    this.at += size;
    if (this.at > this.view.byteLength) throw new RangeError("past the end");
  }
}

function parse(reader) {
  if (reader.number(4) !== 0x46554747) throw new Unfit("it does not begin with GGUF");
  const version = reader.number(4);
  if (version !== 2 && version !== 3) throw new Unfit(`it is of version ${version}; read are little-endian files of version 2 and 3`);
  const [numTensors, numKeys] = [reader.number(10), reader.number(10)];
  const metadata = {};
  for (let left = numKeys; left > 0; left -= 1) {
    const key = reader.text();
    const value = valueOf(reader, reader.number(4));
    if (value !== null) metadata[key] = value;
  }
  const tensors = [];
  for (let left = numTensors; left > 0; left -= 1) tensors.push(tensorOf(reader));
  return { metadata, tensors };
}

/** A value, or null for one that no question is about: arrays of text, and long ones. */
function valueOf(reader, kind) {
  if (kind === TEXT) return reader.text();
  if (kind !== ARRAY) return reader.number(kind);
  const [inner, count] = [reader.number(4), reader.number(10)];
  if (inner === ARRAY) throw new Unfit("it has an array of arrays");
  if (inner === TEXT) {
    for (let left = count; left > 0; left -= 1) reader.skip(reader.number(10));
    return null;
  }
  if (count <= MOST_ITEMS) return Array.from({ length: count }, () => reader.number(inner));
  reader.number(inner);
  reader.skip((count - 1) * NUMBERS[inner][1]);
  return null;
}

function tensorOf(reader) {
  const name = reader.text();
  const shape = Array.from({ length: reader.number(4) }, () => reader.number(10));
  const type = TYPES[reader.number(4)];
  reader.skip(8);
  if (type === undefined) throw new Unfit(`${name} is of an unknown type`);
  return { name, type, shape };
}
