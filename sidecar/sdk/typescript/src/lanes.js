/**
 * What comes after what, by cause: promises followed by the hooks of V8.
 *
 * **Rules**
 * 1. A line of execution knows the events that its next one comes after. What goes on after an `await`
 *    comes after what it had done itself and what the promise had waited for, whoever settled it, and
 *    after all of those that `Promise.all` and `allSettled` wait for.
 * 2. Two calls that are waited for together both come after what came before both, in any order.
 * 3. A callback that no promise leads to (a timer, an emitter) comes after the run's start, and after
 *    nothing that merely happened earlier.
 */
import { promiseHooks } from "node:v8";

/** @typedef {readonly number[]} Frontier */

export class Lanes {
  constructor() {
    /** What each event came after. @type {Frontier[]} */
    this.causes = [];
    /** @type {Frontier} */
    this.first = [];
    /** @type {Frontier} */
    this.current = [];
    /** @type {Frontier[]} */
    this.outer = [];
    /** @type {WeakMap<Promise<any>, Frontier>} */
    this.begun = new WeakMap();
    /** @type {WeakMap<Promise<any>, Frontier>} */
    this.settled = new WeakMap();
    /** @type {WeakMap<Promise<any>, readonly Promise<any>[]>} */
    this.waited = new WeakMap();
  }

  /** Follow promises until what is returned is called. */
  follow() {
    /** @type {WeakMap<Promise<any>, Promise<any>>} */
    const parents = new WeakMap();
    const stop = promiseHooks.createHook({
      init: (promise, parent) => {
        this.begun.set(promise, this.current);
        if (parent) parents.set(promise, parent);
      },
      before: (promise) => {
        this.outer.push(this.current);
        const parent = parents.get(promise);
        this.current = this.joined(this.begun.get(promise) ?? this.first, this.done(parent));
      },
      after: () => {
        this.current = this.outer.pop() ?? this.first;
      },
      settled: (promise) => {
        this.settled.set(promise, this.current); // again where it had taken over another's end
      },
    });
    const undo = [this.together("all"), this.together("allSettled")];
    return () => {
      stop();
      for (const one of undo) one();
    };
  }

  /**
   * The first event, which all others come after.
   * @param {number} seq
   */
  start(seq) {
    this.causes[seq] = [];
    this.first = this.current = [seq];
  }

  /**
   * An event came after `cause`, and what is done next here comes after it.
   * @param {number} seq
   * @param {Frontier} cause
   */
  passed(seq, cause) {
    this.causes[seq] = cause;
    this.after(seq);
  }

  /**
   * What is done next here comes after an event.
   * @param {number} seq
   */
  after(seq) {
    if (this.outer.length > 0) this.current = this.joined(this.current, [seq]);
  }

  /** @param {Promise<any>} [promise] */
  done(promise) {
    if (promise === undefined) return [];
    let found = this.settled.get(promise) ?? [];
    for (const one of this.waited.get(promise) ?? []) {
      found = this.joined(found, this.settled.get(one) ?? []);
    }
    return found;
  }

  /**
   * @param {Frontier} one
   * @param {Frontier} other
   * @returns {Frontier}
   */
  joined(one, other) {
    if (other.length === 0 || one === other) return one;
    if (one.length === 0) return other;
    const both = [...new Set([...one, ...other])].sort((a, b) => a - b);
    return both.length === 1 ? both : this.last(both);
  }

  /**
   * Events without those that others of them came after.
   * @param {number[]} seqs in order
   */
  last(seqs) {
    const least = seqs[0] === this.first[0] ? seqs[1] : seqs[0];
    const left = new Set(seqs.length > 1 ? seqs.filter((seq) => seq !== this.first[0]) : seqs);
    const ahead = left.size > 1 ? [...left] : [];
    const seen = new Set();
    while (ahead.length > 0) {
      for (const before of this.causes[Number(ahead.pop())] ?? []) {
        left.delete(before);
        if (before > least && !seen.has(before)) {
          seen.add(before);
          ahead.push(before);
        }
      }
    }
    return [...left];
  }

  /** @param {"all" | "allSettled"} name */
  together(name) {
    const real = Promise[name];
    const { waited } = this;
    /** @type {any} */ (Promise)[name] = function (/** @type {Iterable<any>} */ values) {
      if (typeof values?.[Symbol.iterator] !== "function") return Reflect.apply(real, this, [values]);
      const listed = Array.from(values, (one) => Promise.resolve(one)); // a client's own kind, too
      const promise = Reflect.apply(real, this, [listed]);
      waited.set(promise, listed);
      return promise;
    };
    return () => {
      /** @type {any} */ (Promise)[name] = real;
    };
  }
}
