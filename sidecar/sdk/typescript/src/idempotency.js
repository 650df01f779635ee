/**
 * Idempotency keys: one for each intended action, the same when the action is tried again, and the
 * same that the Python SDK gives.
 *
 * **Rules**
 * 1. A key follows from the run and from what is to be done, and from nothing that a second try would
 *    have anew. The same action meant twice in one run has two keys.
 * 2. A key tells nothing of the arguments it was made of.
 */
import { canonical, sha256 } from "./canonical.js";
import { encoded } from "./value.js";

/**
 * A key of 48 characters for `Idempotency-Key`. Throws TypeError, NotCanonical for arguments that
 * are no JSON-like value.
 * @param {string} run what stays when the run is tried again: a ticket, an order, a job's id
 * @param {string} tool
 * @param {unknown} [args]
 * @param {{ nth?: number }} [options] `nth` tells the same action apart where it is meant again
 */
export function idempotencyKey(run, tool, args = null, { nth = 0 } = {}) {
  if (!run || !tool) throw new TypeError("a key needs a run and a tool");
  const said = canonical([run, tool, encoded(args), nth]);
  return `ak_${sha256("agenttwin-key/1\n", said).slice(0, 45)}`;
}

/** The keys of one run, in the order in which it acts. */
export class Keys {
  /** @param {string} run */
  constructor(run) {
    this.run = run;
    /** @type {Map<string, number>} */
    this.made = new Map();
  }

  /**
   * The key of an action that is meant now: another one each time, the same in a second try of the
   * run that does the same. Keep it for retries of this action.
   * @param {string} tool
   * @param {unknown} [args]
   */
  next(tool, args = null) {
    const first = idempotencyKey(this.run, tool, args);
    const nth = this.made.get(first) ?? 0;
    this.made.set(first, nth + 1);
    return nth === 0 ? first : idempotencyKey(this.run, tool, args, { nth });
  }
}
