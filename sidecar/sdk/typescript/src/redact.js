/**
 * Client-side redaction: what leaves the agent's process without what must not.
 *
 * **Rules**
 * 1. What cannot be looked at goes: a value that is no JSON-like one is replaced, never passed on.
 */
import { NotCanonical } from "./canonical.js";
import { Redactor, UNREADABLE } from "./redaction.js";
import { decoded, encoded } from "./value.js";

/** Secrets' keys and known forms, masked. */
export const DEFAULT = new Redactor();

/**
 * A JSON-like value (text, numbers, lists, objects, bytes) with every datum replaced.
 * @param {any} value
 * @param {Redactor} [redactor]
 * @returns {any}
 */
export function redact(value, redactor = DEFAULT) {
  if (typeof value === "string") return redactor.text(value);
  try {
    return decoded(redactor.value(encoded(value)));
  } catch (error) {
    if (error instanceof NotCanonical || error instanceof RangeError) return UNREADABLE;
    throw error;
  }
}

/**
 * Attributes of a span or a log record, each by its key's last word too.
 * @param {Readonly<Record<string, any>>} attributes
 * @param {Redactor} [redactor]
 * @returns {Record<string, any>}
 */
export function redactAttributes(attributes, redactor = DEFAULT) {
  return Object.fromEntries(
    Object.entries(attributes).map(([key, value]) => [key, attribute(key, value, redactor)]),
  );
}

/**
 * @param {string} key
 * @param {any} value
 * @param {Redactor} redactor
 */
function attribute(key, value, redactor) {
  if (value === undefined || value === null) return value;
  if (typeof value === "boolean" || typeof value === "number") return value;
  const found = redact({ [key.slice(key.lastIndexOf(".") + 1)]: value }, redactor);
  return typeof found === "object" ? Object.values(found)[0] : UNREADABLE;
}
