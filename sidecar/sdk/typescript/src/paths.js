/**
 * Places in JSON-like values: JSON Pointer with `*` for one step, `**` for any; the twin of
 * `sidecar/tape/paths.py`.
 *
 * **Rules**
 * 1. `~0` is `~`, `~1` is `/`, `~2` is a key that is a star itself.
 * 2. Editing gives a new value and leaves the old one; the innermost place is changed first.
 */

/** @typedef {readonly (readonly [number, number])[]} States */

/** What an edit gives for a value that is to go. */
export const REMOVED = Symbol("removed");
const STEPS_MAX = 64;

/** Some paths, to be found in a value together. */
export class Paths {
  /** @param {readonly string[]} texts */
  constructor(texts) {
    this.texts = [...texts];
    this.patterns = this.texts.map(parsed);
    /** @type {States} */
    this.start = this.closed(this.patterns.map((_, number) => [number, 0]));
  }

  /**
   * What is left to find below a key.
   * @param {States} states
   * @param {string | number} key
   * @returns {States}
   */
  step(states, key) {
    if (states.length === 0) return states;
    const text = String(key);
    /** @type {[number, number][]} */
    const after = [];
    for (const [number, place] of states) {
      const wanted = this.patterns[number][place];
      if (wanted === undefined) continue;
      if (wanted.literal !== undefined) {
        if (wanted.literal === text) after.push([number, place + 1]);
      } else after.push([number, wanted.any ? place : place + 1]);
    }
    return this.closed(after);
  }

  /**
   * The numbers of the paths that end here.
   * @param {States} states
   */
  ends(states) {
    const found = states.filter(([number, place]) => place === this.patterns[number].length);
    return found.map(([number]) => number).sort((a, b) => a - b);
  }

  /**
   * The value without what lies on the paths; a list's item becomes null.
   * @param {any} value
   * @param {States} [states]
   * @returns {any}
   */
  without(value, states = this.start) {
    const found = this.left(value, states);
    return found === REMOVED ? null : found;
  }

  /**
   * @param {any} value
   * @param {States} states
   * @returns {any}
   */
  left(value, states) {
    if (states.length === 0) return value;
    if (this.ends(states).length > 0) return REMOVED;
    if (value instanceof Map) {
      const found = new Map();
      for (const [key, item] of value) {
        const after = this.left(item, this.step(states, key));
        if (after !== REMOVED) found.set(key, after);
      }
      return found;
    }
    if (!Array.isArray(value)) return value;
    return value.map((item, place) => this.without(item, this.step(states, place)));
  }

  /**
   * With every state that `**` reaches by matching nothing.
   * @param {readonly (readonly [number, number])[]} states
   * @returns {States}
   */
  closed(states) {
    /** @type {Map<number, readonly [number, number]>} */
    const found = new Map();
    for (const [number, first] of states) {
      let place = first;
      found.set(number * (STEPS_MAX + 2) + place, [number, place]);
      while (this.patterns[number][place]?.any) {
        place += 1;
        found.set(number * (STEPS_MAX + 2) + place, [number, place]);
      }
    }
    return [...found.values()];
  }
}

/**
 * @param {string} text
 * @returns {{ literal?: string, any?: boolean }[]}
 */
function parsed(text) {
  if (text && !text.startsWith("/")) throw new Error(`${text}: a path begins with /, or is empty`);
  const parts = text.split("/").slice(1);
  if (parts.length > STEPS_MAX) throw new Error(`${text}: more than ${STEPS_MAX} steps`);
  return parts.map((part) => {
    if (part === "*") return {};
    if (part === "**") return { any: true };
    return { literal: part.replaceAll("~2", "*").replaceAll("~1", "/").replaceAll("~0", "~") };
  });
}
