/**
 * An agent that records itself: `await record(path, options, async (recording) => …)`.
 *
 * **Rules**
 * 1. One tape at a time in a process; inside of one, `record` only lets happen what is inside. Clock
 *    and dice are the real ones again when it ends.
 * 2. What fails inside is recorded as an error and thrown on; the tape is sealed all the same, also
 *    where the process leaves in the middle. Only a signal or a crash leaves it partial.
 * 3. A tape with content is L2: what it lacks for a strict replay (environment, files, people, the
 *    spelling of answers) is said by its fidelity, not discovered later.
 */
import { randomBytes } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { address } from "./canonical.js";
import { onClaim } from "./client.js";
import { checked } from "./options.js";
import { Redactor } from "./redaction.js";
import { install as installAmbient } from "./seams/ambient.js";
import { install as installFetch } from "./seams/fetch.js";
import { active, messageOf, nameOf, now, Session } from "./session.js";
import { Sites } from "./sites.js";
import { TapeWriter } from "./writer.js";

/** @typedef {import("./options.js").Options} Options */

/** What hides nothing and says so. */
const PLAIN = {
  identity: new Map([
    ["id", "none"],
    ["version", "1"],
  ]),
  value: (/** @type {any} */ value) => value,
};
const random = randomBytes;
let running = false;

/** A recording in progress. */
export class Recording {
  /** @param {Session} session */
  constructor(session) {
    this.session = session;
  }

  /**
   * What the run answered: it stands in the terminal event.
   * @param {unknown} value
   */
  output(value) {
    this.session.output.output = value;
  }
}

/**
 * Record what happens inside to a new tape. Throws where there is a file already, none can be made,
 * or another recording is under way.
 * @template T
 * @overload
 * @param {string} path
 * @param {Options} options
 * @param {(recording: Recording) => T | Promise<T>} act
 * @returns {Promise<T>}
 */
/**
 * @template T
 * @overload
 * @param {string} path
 * @param {(recording: Recording) => T | Promise<T>} act with no options: digests only
 * @returns {Promise<T>}
 */
/**
 * @param {string} path
 * @param {any} options
 * @param {any} [act]
 * @returns {Promise<any>}
 */
export async function record(path, options, act) {
  if (act === undefined && typeof options === "function") [act, options] = [options, {}];
  if (typeof act !== "function") throw new TypeError("record(path, options, act): act is a function");
  const around = active();
  if (around !== null) return act(new Recording(around));
  if (running) throw new Error("one tape at a time: another recording is under way in this process");
  const { capture, roots, agent, labels, redactor } = checked(options, process.cwd());
  const sites = new Sites(roots);
  const began = now();
  const writer = new TapeWriter(resolve(path), header(began, capture, roots[0], labels), {
    redactor: capture === "full" ? PLAIN : (redactor ?? new Redactor()),
    content: capture !== "off",
  });
  running = true;
  const session = new Session(writer, sites, { agent, began });
  const undo = [
    installFetch(),
    installAmbient(),
    onClaim((status) => claimed(session, status)),
    onExit((why) => ended(why)),
  ];
  /** @param {string | null} why it ended early; null where it came to its end */
  function ended(why) {
    session.output.reason = why;
    session.end(why === null ? "ok" : "error");
    for (const one of undo.reverse()) one();
    running = false;
    writer.seal();
  }
  let value;
  try {
    value = await session.run(() => act(new Recording(session)));
  } catch (error) {
    try {
      ended(nameOf(error));
    } catch (fault) {
      process.emitWarning(messageOf(fault) ?? ""); // the agent's own error is the one to be thrown
    }
    throw error;
  }
  ended(null);
  return value;
}

/**
 * Hear that the process leaves in the middle of a recording (`process.exit`, an error that nobody
 * caught, nothing left to wait for), until what is returned is called.
 * @param {(why: string | null) => void} listener
 */
function onExit(listener) {
  /** @type {string | null} */
  let error = null;
  const uncaught = (/** @type {unknown} */ thrown) => {
    error = nameOf(thrown);
  };
  const left = (/** @type {number} */ code) => {
    try {
      const told = Number(process.exitCode ?? code); // Node says 13 only there
      listener(told === 0 ? null : (error ?? `exit ${told}`));
    } catch (fault) {
      process.stderr.write(`${messageOf(fault)}\n`);
    }
  };
  process.on("uncaughtExceptionMonitor", uncaught).on("exit", left);
  return () => void process.off("uncaughtExceptionMonitor", uncaught).off("exit", left);
}

/**
 * @param {Session} session
 * @param {string} status
 */
function claimed(session, status) {
  if (active() !== session) return;
  session.output.claimed = [...new Set([...(session.output.claimed ?? []), status])].sort();
}

/**
 * @param {number} began
 * @param {string} capture
 * @param {string} root
 * @param {Readonly<Record<string, string>>} labels
 */
function header(began, capture, root, labels) {
  const whole = Math.floor(began);
  const rest = String(Math.round((began - whole) * 1e6) % 1e6).padStart(6, "0");
  const [script, ...args] = process.argv.slice(1);
  return {
    tape_id: newId(whole),
    fidelity: capture === "off" ? "L1" : "L2",
    captured_at: new Date(whole).toISOString().replace("Z", `${rest}Z`),
    argv: script === undefined ? [] : [relative(root, script), ...args],
    labels,
    agent: build(root),
  };
}

/** @param {string} root */
function build(root) {
  const place = join(root, "package.json");
  if (!existsSync(place)) return {};
  const text = readFileSync(place);
  const found = { manifest: address(text) };
  try {
    const { name, version } = JSON.parse(text.toString());
    return { ...found, name: name && String(name), version: version && String(version) };
  } catch {
    return found; // a manifest that is none: its digest says which it was
  }
}

/**
 * A time-ordered random id: 32 hex digits in the layout of UUIDv7.
 * @param {number} ms
 */
function newId(ms) {
  const dice = random(10).toString("hex");
  const variant = ((parseInt(dice[4], 16) & 3) | 8).toString(16);
  return `${ms.toString(16).padStart(12, "0")}7${dice.slice(1, 4)}${variant}${dice.slice(5)}`;
}
