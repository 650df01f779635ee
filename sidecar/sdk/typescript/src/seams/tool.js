/**
 * The seam TOOL: functions of the agent's own that are its tools.
 *
 * **Rules**
 * 1. A tool's call is its arguments by name: those of `parameters`, the members of the one object it
 *    takes, or else a list. Its result is what it returned.
 *    Of an argument without a form its class is told.
 * 2. A stream (a generator, an asynchronous one) is passed on piece by piece; what the agent sends or
 *    throws into it reaches the tool. Any other object is handed on as it is.
 * 3. Outside of a recording a tool is the function it was; its properties are the function's.
 */
import { current } from "../session.js";
import { described } from "../value.js";

/** @typedef {import("../session.js").Crossing} Crossing */

/**
 * A function that is a tool, under its own name or another. Throws TypeError where it is none.
 * @template {(...args: any[]) => any} F
 * @param {F} real
 * @param {{ name?: string, parameters?: readonly string[] }} [options]
 * @returns {F}
 */
export function tool(real, { name = real?.name || "tool", parameters } = {}) {
  if (typeof real !== "function") throw new TypeError(`a tool is a function, not ${String(real)}`);
  return new Proxy(real, {
    apply(_, self, args) {
      const session = current();
      if (session === null) return Reflect.apply(real, self, args);
      const given = byName(args, parameters);
      const site = session.sites.first();
      const x = session.enter({ kind: "tool_call", seam: "tool", name, given, site, label: name });
      let got;
      try {
        got = session.muted(() => Reflect.apply(real, self, args));
      } catch (error) {
        x.failed(error);
        throw error;
      }
      return answered(x, got);
    },
  });
}

/**
 * What a tool returned, as it is handed on.
 * @param {Crossing} x
 * @param {any} got
 */
function answered(x, got) {
  if (typeof got?.then === "function") return awaited(x, got);
  const kind = Object.prototype.toString.call(got);
  if (kind === "[object AsyncGenerator]") return streamed(x, got);
  if (kind === "[object Generator]") return pieces(x, got);
  x.done(got ?? null);
  return got;
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
 * @param {AsyncGenerator<any>} real
 * @returns {AsyncGenerator<any>}
 */
async function* streamed(x, real) {
  const { session } = x;
  let [ended, go] = [false, () => real.next()];
  try {
    for (;;) {
      const { done, value } = await session.muted(go);
      if (done) {
        ended = true;
        x.done(value ?? null);
        return value;
      }
      x.chunk({ forms: {}, piece: value });
      try {
        const sent = yield value;
        go = () => real.next(sent);
      } catch (error) {
        go = () => real.throw(error); // the tool's own to catch
      }
    }
  } catch (error) {
    ended = true;
    x.failed(error);
    throw error;
  } finally {
    x.cancelled(); // where the agent takes no more; nothing where it is over
    if (!ended) await session.muted(() => real.return(undefined));
  }
}

/**
 * @param {Crossing} x
 * @param {Generator<any>} real
 * @returns {Generator<any>}
 */
function* pieces(x, real) {
  const { session } = x;
  let [ended, go] = [false, () => real.next()];
  try {
    for (;;) {
      const { done, value } = session.muted(go);
      if (done) {
        ended = true;
        x.done(value ?? null);
        return value;
      }
      x.chunk({ forms: {}, piece: value });
      try {
        const sent = yield value;
        go = () => real.next(sent);
      } catch (error) {
        go = () => real.throw(error);
      }
    }
  } catch (error) {
    ended = true;
    x.failed(error);
    throw error;
  } finally {
    x.cancelled();
    if (!ended) session.muted(() => real.return(undefined));
  }
}

/**
 * @param {any[]} args
 * @param {readonly string[]} [parameters]
 */
function byName(args, parameters) {
  const told = args.map((one) => described(one));
  if (parameters !== undefined && args.length <= parameters.length) {
    return new Map(told.map((value, place) => [parameters[place], value]));
  }
  if (args.length === 1 && told[0] instanceof Map) return told[0];
  return args.length === 0 ? {} : { args: told };
}
