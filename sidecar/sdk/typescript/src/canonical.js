/**
 * Canonical JSON (RFC 8785) and the digests made of it; the twin of `sidecar/canonical.py`.
 *
 * **Rules**
 * 1. Objects are Maps inside: their keys keep their order, and none of them is special.
 * 2. What RFC 8785 cannot say is refused: NaN, infinities, lone surrogates.
 */
import crypto from "node:crypto";

/** Of Node 20.12 and newer. @type {((name: string, data: string, as: string) => Buffer) | undefined} */
const once = /** @type {any} */ (crypto).hash;

/** The value has no canonical form. */
export class NotCanonical extends Error {}

/**
 * RFC 8785 text of an encoded value. Throws NotCanonical where there is none.
 * @param {any} value
 * @returns {string}
 */
export function canonical(value) {
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "string") {
    if (!isWellFormed(value)) throw new NotCanonical("a lone surrogate");
    return JSON.stringify(value);
  }
  if (typeof value === "number") {
    if (!Number.isFinite(value)) throw new NotCanonical(`${value} has no form in JSON`);
    return JSON.stringify(value);
  }
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value instanceof Map) {
    const keys = [...value.keys()].sort(); // by UTF-16 code units, as RFC 8785 has it
    return `{${keys.map((key) => `${canonical(key)}:${canonical(value.get(key))}`).join(",")}}`;
  }
  throw new NotCanonical(`a ${typeof value} has no form in JSON`);
}

/**
 * The hex digits of SHA-256 over parts, one after another.
 * @param {...(string | Uint8Array)} parts texts are UTF-8
 */
export function sha256(...parts) {
  return hashed(parts).toString("hex");
}

/**
 * The bytes of SHA-256 over parts.
 * @param {(string | Uint8Array)[]} parts
 */
export function hashed(parts) {
  if (once !== undefined && parts.every((part) => typeof part === "string")) {
    return once("sha256", parts.join(""), "buffer"); // a hash without an object is much faster
  }
  const hash = crypto.createHash("sha256");
  for (const part of parts) hash.update(part);
  return hash.digest();
}

/**
 * `sha256:<hex>` of a payload's canonical text.
 * @param {string | Uint8Array} data
 */
export function address(data) {
  return `sha256:${sha256(data)}`;
}

/**
 * Whether a text has no lone surrogate.
 * @param {string} text
 */
export function isWellFormed(text) {
  // A look at single units first: most texts have none of a pair.
  return !/[\ud800-\udfff]/.test(text) || !/\p{Surrogate}/u.test(text);
}
