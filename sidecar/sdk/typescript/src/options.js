/**
 * What a recording is told, checked before anything is made or changed.
 *
 * **Rules**
 * 1. A word that is not known is refused: a misspelt `capture` would keep digests where content was
 *    meant, and nobody would see it before the tape is needed.
 */
import { Redactor } from "./redaction.js";

/**
 * @typedef {object} Options
 * @property {"off" | "redacted" | "full"} [capture] `off` (default) keeps digests only
 * @property {readonly string[]} [roots] folders of the agent's own files; none = the working directory
 * @property {string} [agent] whose events they are
 * @property {Readonly<Record<string, string>>} [labels] kept in the header
 * @property {Redactor} [redactor] another one than the SDK's own, of `capture: "redacted"` or `"off"`
 */

const CAPTURES = ["off", "redacted", "full"];
const KNOWN = ["capture", "roots", "agent", "labels", "redactor"];

/**
 * The options with their defaults. Throws TypeError for what is none.
 * @param {Options} options
 * @param {string} folder the working directory
 */
export function checked(options, folder) {
  if (typeof options !== "object" || options === null) {
    throw new TypeError("record(path, options, act): the options are an object");
  }
  const strange = Object.keys(options).find((name) => !KNOWN.includes(name));
  if (strange !== undefined) {
    throw new TypeError(`${strange} is no option of a recording; there are ${KNOWN.join(", ")}`);
  }
  const { capture = "off", roots = [], agent = "agent", labels = {}, redactor } = options;
  if (!CAPTURES.includes(capture)) throw new TypeError(`capture is one of ${CAPTURES.join(", ")}`);
  if (!Array.isArray(roots) || !roots.every(isText)) throw new TypeError("roots is a list of folders");
  if (!isText(agent) || agent === "") throw new TypeError("agent is a name");
  if (typeof labels !== "object" || labels === null || !Object.values(labels).every(isText)) {
    throw new TypeError("labels are texts by their names");
  }
  if (redactor !== undefined && !(redactor instanceof Redactor)) {
    throw new TypeError("redactor is a Redactor");
  }
  return { capture, roots: roots.length > 0 ? roots : [folder], agent, labels, redactor };
}

/** @param {unknown} value */
function isText(value) {
  return typeof value === "string";
}
