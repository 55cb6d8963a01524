// What is too long for a query goes along behind the # of the address, compressed: it is never sent to a server, whose limit
// on addresses it would break, and which has no business to log it.
import { Problem } from "../api.js";

const NAME = "with=";
const FORMAT = "deflate-raw";
const STRIDE = 0x8000;

/** Return a value of JSON as letters for an address; nothing at all is "". */
export async function packed(value) {
  if (Object.keys(value).length === 0) return "";
  const bytes = await passed(new TextEncoder().encode(JSON.stringify(value)), new CompressionStream(FORMAT));
  return `#${NAME}${lettersOf(bytes)}`;
}

/** Return what an address has behind its #, once `isWanted` has looked at it; throws a Problem where that was cut off or mistyped. */
export async function unpacked(hash, isWanted) {
  if (!hash.startsWith(`#${NAME}`)) return {};
  try {
    const bytes = await passed(bytesOf(hash.slice(NAME.length + 1)), new DecompressionStream(FORMAT));
    const value = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
    if (isWanted(value)) return value;
  } catch (error) {
    // What base64, the decompressor, the decoder and JSON throw of letters that are none of ours.
    if (!(error instanceof DOMException || error instanceof TypeError || error instanceof SyntaxError)) throw error;
  }
  throw new Problem({
    status: 0,
    title: "This link is not whole",
    detail: "its end, which holds what was pasted or kept, cannot be read: chats and tickets cut long links off. Ask for it again as a file, or for the model to be stored under a name, which makes the link short",
  });
}

async function passed(bytes, transform) {
  const stream = new Blob([bytes]).stream().pipeThrough(transform);
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Base64 with the letters that addresses leave alone (RFC 4648, sec. 5). */
function lettersOf(bytes) {
  let text = "";
  // A call takes only so many arguments.
  for (let at = 0; at < bytes.length; at += STRIDE) text += String.fromCharCode(...bytes.subarray(at, at + STRIDE));
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

function bytesOf(letters) {
  const text = atob(letters.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(text, (letter) => letter.charCodeAt(0));
}
