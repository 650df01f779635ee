/**
 * The seams CLOCK and ENTROPY: what an agent's own files ask the time, and the dice they throw.
 *
 * **Rules**
 * 1. Every way to ask is one event, named as it is called. Libraries and Node keep theirs unseen.
 * 2. The agent gets the real value, untouched.
 */
import crypto from "node:crypto";
import { syncBuiltinESMExports } from "node:module";
import { NOTHING } from "../compose.js";
import { current } from "../session.js";

/** @typedef {"clock" | "entropy"} Seam */

/** Stand in for clock and dice until what is returned is called. */
export function install() {
  const undo = [
    method(Math, "random", "entropy", "Math.random"),
    method(Date, "now", "clock", "Date.now"),
    method(performance, "now", "clock", "performance.now"),
    method(crypto.webcrypto, "randomUUID", "entropy", "crypto.randomUUID"),
    method(crypto.webcrypto, "getRandomValues", "entropy", "crypto.getRandomValues", sizes),
    method(crypto, "randomUUID", "entropy", "crypto.randomUUID"),
    method(crypto, "randomBytes", "entropy", "crypto.randomBytes", waitsForNobody),
    method(crypto, "randomInt", "entropy", "crypto.randomInt", waitsForNobody),
    newDate(),
  ];
  syncBuiltinESMExports();
  return () => {
    for (const one of undo.reverse()) one();
    syncBuiltinESMExports();
  };
}

/**
 * @param {any} owner
 * @param {string} name
 * @param {Seam} seam
 * @param {string} called
 * @param {(args: any[]) => any} [given] what is told of the arguments; undefined = it is no event
 */
function method(owner, name, seam, called, given = (args) => (args.length > 0 ? args : NOTHING)) {
  const before = Object.getOwnPropertyDescriptor(owner, name);
  const real = owner[name];
  /** @this {any} */
  function standIn(/** @type {any[]} */ ...args) {
    return ask(seam, called, given(args), () => Reflect.apply(real, this, args));
  }
  Object.defineProperty(owner, name, { value: standIn, configurable: true, writable: true, enumerable: before?.enumerable ?? false });
  return () => {
    if (before === undefined) delete owner[name];
    else Object.defineProperty(owner, name, before);
  };
}

/** `new Date()` and `Date()` of now; of a moment that is given they ask nothing. */
function newDate() {
  const Real = globalThis.Date;
  /** @type {DateConstructor} */
  const Standing = new Proxy(Real, {
    construct(target, args, newTarget) {
      const made = Reflect.construct(target, args, newTarget === Standing ? target : newTarget);
      if (args.length === 0) ask("clock", "new Date", NOTHING, () => made.getTime());
      return made;
    },
    apply: (target) => ask("clock", "Date", NOTHING, () => target()),
  });
  globalThis.Date = Standing;
  Real.prototype.constructor = Standing; // who asks a date for its class finds the Date there is
  return () => {
    if (globalThis.Date === Standing) globalThis.Date = Real;
    if (Real.prototype.constructor === Standing) Real.prototype.constructor = Real;
  };
}

/**
 * A value that an own file asks for.
 * @param {Seam} seam
 * @param {string} name
 * @param {any} given
 * @param {() => any} real
 */
function ask(seam, name, given, real) {
  const session = given === undefined ? null : current();
  const site = session?.sites.caller() ?? null;
  if (session === null || site === null) return real();
  const x = session.enter({ kind: "decision", seam, name, given, site, label: name });
  try {
    const value = session.muted(real);
    x.done(value);
    return value;
  } catch (error) {
    x.failed(error);
    throw error;
  }
}

/** @param {any[]} args */
function waitsForNobody(args) {
  return typeof args.at(-1) === "function" ? undefined : args;
}

/** @param {any[]} args */
function sizes([array]) {
  return [array?.byteLength ?? null];
}
