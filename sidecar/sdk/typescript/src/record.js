/**
 * An agent that records itself: `await record(path, options, async (recording) => …)`.
 *
 * **Rules**
 * 1. One tape at a time in a process; inside of one, `record` only lets happen what is inside. Clock
 *    and dice are the real ones again when it ends.
 * 2. What fails inside is recorded as an error and thrown on; the tape is sealed all the same.
 * 3. A tape with content is L2: what it lacks for a strict replay (environment, files, people, the
 *    spelling of answers) is said by its fidelity, not discovered later.
 */
import { randomBytes } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { address } from "./canonical.js";
import { onClaim } from "./client.js";
import { Redactor } from "./redaction.js";
import { install as installAmbient } from "./seams/ambient.js";
import { install as installFetch } from "./seams/fetch.js";
import { active, nameOf, now, Session } from "./session.js";
import { Sites } from "./sites.js";
import { TapeWriter } from "./writer.js";

/**
 * @typedef {object} Options
 * @property {"off" | "redacted" | "full"} [capture] `off` (default) keeps digests only
 * @property {readonly string[]} [roots] folders of the agent's own files; none = the working directory
 * @property {string} [agent] whose events they are
 * @property {Readonly<Record<string, string>>} [labels] kept in the header
 * @property {Redactor} [redactor] another one than the SDK's own, of `capture: "redacted"` or `"off"`
 */

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
 * @param {string} path
 * @param {Options} options
 * @param {(recording: Recording) => T | Promise<T>} act
 * @returns {Promise<T>}
 */
export async function record(path, options, act) {
  const around = active();
  if (around !== null) return act(new Recording(around));
  if (running) throw new Error("one tape at a time: another recording is under way in this process");
  const { capture = "off", roots = [process.cwd()], agent = "agent", labels = {}, redactor } = options;
  if (!["off", "redacted", "full"].includes(capture)) {
    throw new TypeError("capture is one of off, redacted, full");
  }
  const began = now();
  const writer = new TapeWriter(resolve(path), header(began, capture, roots[0], labels), {
    redactor: capture === "full" ? PLAIN : (redactor ?? new Redactor()),
    content: capture !== "off",
  });
  running = true;
  const session = new Session(writer, new Sites(roots), { agent, began });
  const undo = [installFetch(), installAmbient(), onClaim((status) => claimed(session, status))];
  /** @type {import("./compose.js").Status} */
  let status = "ok";
  try {
    return await session.run(() => act(new Recording(session)));
  } catch (error) {
    status = "error";
    session.output.reason = nameOf(error);
    throw error;
  } finally {
    session.end(status);
    for (const one of undo.reverse()) one();
    running = false;
    writer.seal();
  }
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
