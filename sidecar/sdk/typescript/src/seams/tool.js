/**
 * The seam TOOL: functions of the agent's own that are its tools.
 *
 * **Rules**
 * 1. A tool's call is its arguments by name: those of `parameters`, the members of the one object it
 *    takes, or else a list. Its result is what it returned.
 * 2. A stream (a generator, an asynchronous one) is passed on piece by piece.
 * 3. Outside of a recording a tool is the function it was.
 */
import { current, told } from "../session.js";

/** @typedef {import("../session.js").Crossing} Crossing */

/**
 * A function that is a tool, under its own name or another.
 * @template {(...args: any[]) => any} F
 * @param {F} real
 * @param {{ name?: string, parameters?: readonly string[] }} [options]
 * @returns {F}
 */
export function tool(real, { name = real.name || "tool", parameters } = {}) {
  /** @this {any} */
  function called(/** @type {any[]} */ ...args) {
    const session = current();
    if (session === null) return Reflect.apply(real, this, args);
    const given = told(() => byName(args, parameters));
    const site = session.sites.first();
    const x = session.enter({ kind: "tool_call", seam: "tool", name, given, site, label: name });
    let got;
    try {
      got = session.muted(() => Reflect.apply(real, this, args));
    } catch (error) {
      x.failed(error);
      throw error;
    }
    if (typeof got?.then === "function") return awaited(x, got);
    if (typeof got?.next === "function") {
      if (typeof got[Symbol.asyncIterator] === "function") return streamed(x, got);
      if (typeof got[Symbol.iterator] === "function") return pieces(x, got);
    }
    x.done(got ?? null);
    return got;
  }
  Object.defineProperty(called, "name", { value: real.name, configurable: true });
  Object.defineProperty(called, "length", { value: real.length, configurable: true });
  return /** @type {F} */ (/** @type {unknown} */ (called));
}

/**
 * @param {Crossing} x
 * @param {PromiseLike<any>} got
 */
async function awaited(x, got) {
  let value;
  try {
    value = await got;
  } catch (error) {
    x.failed(error);
    throw error;
  }
  x.done(value ?? null);
  return value;
}

/**
 * @param {Crossing} x
 * @param {AsyncIterator<any>} real
 */
async function* streamed(x, real) {
  const { session } = x;
  try {
    for (;;) {
      const { done, value } = await session.muted(() => real.next());
      if (done) break;
      x.chunk({ forms: {}, piece: value });
      yield value;
    }
    x.done(null);
  } catch (error) {
    x.failed(error);
    throw error;
  } finally {
    x.cancelled(); // where the agent takes no more; nothing where it is over
    await session.muted(() => real.return?.());
  }
}

/**
 * @param {Crossing} x
 * @param {Iterator<any>} real
 */
function* pieces(x, real) {
  const { session } = x;
  try {
    for (;;) {
      const { done, value } = session.muted(() => real.next());
      if (done) {
        x.done(value ?? null);
        return value;
      }
      x.chunk({ forms: {}, piece: value });
      yield value;
    }
  } catch (error) {
    x.failed(error);
    throw error;
  } finally {
    x.cancelled();
    session.muted(() => real.return?.());
  }
}

/**
 * @param {any[]} args
 * @param {readonly string[]} [parameters]
 */
function byName(args, parameters) {
  if (parameters !== undefined && args.length <= parameters.length) {
    return Object.fromEntries(args.map((value, place) => [parameters[place], value]));
  }
  const [only] = args;
  const plain = typeof only === "object" && only !== null && !Array.isArray(only);
  if (args.length === 1 && plain && !ArrayBuffer.isView(only)) return only;
  return args.length === 0 ? {} : { args };
}
