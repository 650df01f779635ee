/**
 * Claims: what an agent says of an effect, as attributes that the sidecar reads.
 *
 * **Rules**
 * 1. A claim proves nothing and can only lower an outcome: what the sidecar sees for itself decides.
 * 2. An amount is exact: a text, a bigint or a whole number, never a fraction.
 */

/** The name of an event that carries a claim, and of its attributes before their dot. */
export const EVENT = "agenttwin.claim";
const STATUSES = ["success", "failure", "unknown"];
const MEMBERS = ["action", "objects", "amount", "currency", "confidence", "text"];
const AMOUNT = /^-?[0-9]{1,39}(?:\.[0-9]{1,39})?$/;

/** @typedef {"success" | "failure" | "unknown"} Status */
/** @typedef {Record<string, string | number | string[]>} Attributes */

/**
 * What to put on a span, or on an event of it that is named `EVENT`. Throws TypeError.
 * @param {string} subject a tool's or an effect's name
 * @param {Status} status
 * @param {object} [said]
 * @param {string} [said.action]
 * @param {readonly string[]} [said.objects] what it was done to
 * @param {string | number | bigint} [said.amount]
 * @param {string} [said.currency] three capital letters, beside an amount
 * @param {number} [said.confidence] between 0 and 1
 * @param {string} [said.text]
 * @returns {Attributes}
 */
export function claim(subject, status, said = {}) {
  const strange = Object.keys(said).find((name) => !MEMBERS.includes(name));
  if (strange !== undefined) {
    throw new TypeError(`a claim has no ${strange}; it may have ${MEMBERS.join(", ")}`);
  }
  const { action, objects = [], amount, currency, confidence, text } = said;
  if (!subject) throw new TypeError("a claim has a subject: a tool's or an effect's name");
  if (!STATUSES.includes(status)) {
    throw new TypeError(`a claim's status is one of ${STATUSES.join(", ")}`);
  }
  if (!Array.isArray(objects) || !objects.every((one) => typeof one === "string")) {
    throw new TypeError("a claim's objects are a list of texts");
  }
  if (confidence !== undefined && !(typeof confidence === "number" && confidence >= 0 && confidence <= 1)) {
    throw new TypeError("a claim's confidence is between 0 and 1");
  }
  if (currency !== undefined && (amount === undefined || !/^[A-Z]{3}$/.test(currency))) {
    throw new TypeError("a currency is three capital letters, beside an amount");
  }
  const told = {
    subject,
    status,
    action,
    object: objects.length > 0 ? [...objects] : undefined,
    amount: amount === undefined ? undefined : exact(amount),
    currency,
    confidence,
    text,
  };
  /** @type {Attributes} */
  const found = {};
  for (const [name, value] of Object.entries(told)) {
    if (value !== undefined) found[`${EVENT}.${name}`] = value;
  }
  return found;
}

/** @param {string | number | bigint} amount */
function exact(amount) {
  if (typeof amount === "number" && !Number.isSafeInteger(amount)) {
    throw new TypeError("an amount is a text, a bigint or a whole number: fractions are not exact");
  }
  const found = String(amount);
  if (!AMOUNT.test(found)) throw new TypeError("an amount is a plain decimal number");
  return found;
}
