/**
 * Payloads as a tape holds them; the twin of `sidecar/tape/value.py`, with the same spellings.
 *
 * **Rules**
 * 1. Bytes are `{"$b64": …}`, integers beyond 2^53 - 1 `{"$int": "…"}`, an object that only looks so
 *    `{"$obj": …}`.
 * 2. What `toJSON` says counts, as everywhere in JavaScript; members that are undefined are none.
 *    Functions, symbols and sets have no form.
 */
import { NotCanonical } from "./canonical.js";

export const DEPTH_MAX = 100;
const EXPONENT_FROM = 1e21;
const MARKS = ["$b64", "$int", "$obj"];
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
const INTEGER = /^\s*[-+]?\d+(?:_\d+)*\s*$/;

/**
 * A value as JSON-like values only, objects as Maps. Throws NotCanonical, also where it cannot be
 * looked at.
 * @param {any} value
 * @returns {any}
 */
export function encoded(value) {
  try {
    return formed(value, 0);
  } catch (error) {
    if (error instanceof NotCanonical || error instanceof RangeError) throw error;
    throw new NotCanonical("it cannot be looked at"); // a getter, a proxy or `toJSON` threw
  }
}

/**
 * @param {any} value
 * @param {number} depth
 * @returns {any}
 */
function formed(value, depth) {
  if (value === undefined) return null;
  if (value === null || typeof value === "string" || typeof value === "boolean") return value;
  if (typeof value === "number") return number(value);
  if (typeof value === "bigint") {
    return Number.isSafeInteger(Number(value)) ? Number(value) : new Map([["$int", String(value)]]);
  }
  if (typeof value !== "object") throw new NotCanonical(`a ${typeof value} has no form on a tape`);
  if (depth > DEPTH_MAX) throw new NotCanonical("nested deeper than a tape holds");
  const bytes = bytesOf(value);
  if (bytes !== null) return new Map([["$b64", Buffer.from(bytes).toString("base64")]]);
  if (Array.isArray(value)) return Array.from(value, (item) => formed(item, depth + 1));
  if (value instanceof String || value instanceof Number || value instanceof Boolean) {
    return formed(value.valueOf(), depth);
  }
  if (typeof value.toJSON === "function") return formed(value.toJSON(), depth + 1);
  return members(value, depth);
}

/**
 * A copy of an argument in which all has a form: of what has none, the class stands there. Objects are
 * Maps.
 * @param {any} value
 * @param {Set<object>} [around] what it stands in
 * @returns {any}
 */
export function described(value, around = new Set()) {
  if (typeof value === "number" && !Number.isFinite(value)) {
    return { type: "float", value: String(value).toLowerCase().replace("inity", "") };
  }
  if (typeof value === "function" || typeof value === "symbol") return classOf(value);
  if (typeof value !== "object" || value === null) return value;
  if (around.size > DEPTH_MAX / 2 || around.has(value)) return classOf(value);
  around.add(value);
  try {
    if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return value;
    if (Array.isArray(value)) return Array.from(value, (item) => described(item, around));
    if (typeof value.toJSON === "function") return described(value.toJSON(), around);
    if (value instanceof String || value instanceof Number || value instanceof Boolean) {
      return described(value.valueOf(), around);
    }
    const told = value instanceof Map ? [...value] : Object.entries(value);
    if (isSet(value) || told.some(([key]) => typeof key !== "string")) return classOf(value);
    const kept = told.filter(([, item]) => item !== undefined);
    return new Map(kept.map(([key, item]) => [key, described(item, around)]));
  } catch {
    return classOf(value);
  } finally {
    around.delete(value);
  }
}

/** @param {any} value */
function classOf(value) {
  let name;
  try {
    name = Object(value).constructor?.name;
  } catch {
    name = undefined; // it says nothing of itself
  }
  return { type: "object", value: typeof name === "string" && name !== "" ? name : "Object" };
}

/** @param {any} value */
function isSet(value) {
  return value instanceof Set || value instanceof WeakMap || value instanceof WeakSet;
}

/**
 * The JavaScript value that was encoded: plain objects, bytes, and bigint where a number is none.
 * @param {any} value
 * @returns {any}
 */
export function decoded(value) {
  if (Array.isArray(value)) return value.map(decoded);
  if (!(value instanceof Map)) return value;
  const mark = marked(value);
  const [inner] = value.values();
  if (mark === "$b64") return new Uint8Array(Buffer.from(inner, "base64"));
  if (mark === "$int") return BigInt(inner.trim().replaceAll("_", ""));
  const of = value.size === 1 && value.has("$obj") && inner instanceof Map ? inner : value;
  /** @type {Record<string, any>} */
  const found = {};
  for (const [key, item] of of) {
    Object.defineProperty(found, key, {
      value: decoded(item),
      configurable: true,
      enumerable: true,
      writable: true,
    });
  }
  return found;
}

/**
 * `$b64` or `$int` where an encoded value is bytes or a large integer; null elsewhere.
 * @param {Map<string, any>} value
 */
export function marked(value) {
  if (value.size !== 1) return null;
  const [[mark, inner]] = value;
  if (typeof inner !== "string") return null;
  if (mark === "$b64") return BASE64.test(inner) ? mark : null;
  return mark === "$int" && INTEGER.test(inner) ? mark : null;
}

/**
 * @param {any} value
 * @returns {Uint8Array | null}
 */
export function bytesOf(value) {
  if (ArrayBuffer.isView(value)) {
    return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  }
  return value instanceof ArrayBuffer ? new Uint8Array(value) : null;
}

/** @param {number} value */
function number(value) {
  if (Object.is(value, -0)) return 0;
  if (!Number.isInteger(value) || Math.abs(value) >= EXPONENT_FROM) return value;
  return Number.isSafeInteger(value) ? value : new Map([["$int", BigInt(value).toString()]]);
}

/**
 * @param {any} value
 * @param {number} depth
 */
function members(value, depth) {
  if (isSet(value)) throw new NotCanonical("a set has no form on a tape");
  const found = new Map();
  for (const [key, item] of value instanceof Map ? value : Object.entries(value)) {
    if (typeof key !== "string") throw new NotCanonical("a key that is no text");
    if (item !== undefined) found.set(key, formed(item, depth + 1));
  }
  const [only] = found.keys();
  return found.size === 1 && MARKS.includes(only) ? new Map([["$obj", found]]) : found;
}
