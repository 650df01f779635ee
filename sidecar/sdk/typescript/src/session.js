/**
 * One recording: what every seam calls at every crossing.
 *
 * **Rules**
 * 1. Only what is started inside of `record` is on its tape, and what happens inside of a recorded tool
 *    or request is that one's own affair: there `current` is null.
 * 2. `tool_call` is written when it is made and its `tool_result` when it came; every other kind is
 *    one event, written when its answer is there.
 * 3. A failure of the recorder is never the agent's: what cannot be written is counted as dropped.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { NOTHING, siteOf } from "./compose.js";
import { Lanes } from "./lanes.js";

/** @typedef {import("./compose.js").Fact} Fact */
/** @typedef {import("./compose.js").Kind} Kind */
/** @typedef {import("./compose.js").Status} Status */
/** @typedef {import("./sites.js").Site} Site */

/** @type {AsyncLocalStorage<{ session: Session, mute: boolean }>} */
const inside = new AsyncLocalStorage();
const performanceNow = performance.now.bind(performance);
const CANCELLED = ["AbortError", "CanceledError"];

/** The session that what runs here is recorded by; null where nothing is, or inside a seam. */
export function current() {
  const found = inside.getStore();
  return found === undefined || found.mute || found.session.over ? null : found.session;
}

/** Whether this is inside of a recording, a seam of it too. */
export function active() {
  return inside.getStore()?.session ?? null;
}

/** Milliseconds since 1970 and their fraction, whatever stands in for the clock. */
export function now() {
  return performance.timeOrigin + performanceNow();
}

export class Session {
  /**
   * @param {import("./writer.js").TapeWriter} writer
   * @param {import("./sites.js").Sites} sites
   * @param {{ agent: string, began: number }} options `began`: as `now` has it
   */
  constructor(writer, sites, { agent, began }) {
    this.writer = writer;
    this.sites = sites;
    this.agent = agent;
    this.began = began;
    this.lanes = new Lanes();
    /** @type {Map<string, string>} */
    this.places = new Map();
    this.over = false;
    /** @type {Record<string, any>} */
    this.output = { output: null, claimed: null, verified: null, reason: null };
    /** What is waited for, to be told of when the run ends. @type {Set<Crossing>} */
    this.open = new Set();
    /** @type {Set<() => void>} */
    this.closers = new Set();
  }

  /**
   * Do something that is recorded; the recording's first event is that it began.
   * @template T
   * @param {() => T | Promise<T>} act
   * @returns {Promise<T>}
   */
  async run(act) {
    const unfollow = this.lanes.follow();
    try {
      const seq = this.write({ kind: "decision", agent: this.agent, name: "start", status: "ok" });
      this.lanes.start(seq ?? 0);
      // In a promise's turn: what is done there has a beginning and an end.
      const started = Promise.resolve().then(() => inside.run({ session: this, mute: false }, act));
      return await started;
    } finally {
      unfollow();
    }
  }

  /**
   * The run is over: what is still waited for is told of, and the last event written.
   * @param {Status} status
   */
  end(status) {
    for (const close of [...this.closers]) close();
    for (const x of [...this.open]) x.cancelled();
    this.over = true;
    this.write({ kind: "terminal", agent: this.agent, output: this.output, status });
  }

  /**
   * A crossing is made.
   * @param {object} asked
   * @param {Kind} asked.kind
   * @param {string} asked.seam
   * @param {string} asked.name
   * @param {any} [asked.given]
   * @param {Site | null} asked.site
   * @param {string} [asked.label] tells apart crossings of one site that are for different things
   * @param {Record<string, any>} [asked.attributes]
   * @param {import("./lanes.js").Frontier} [asked.cause]
   */
  enter({ kind, seam, name, given = NOTHING, site, label = "", attributes = {}, cause }) {
    const place = this.place(site, seam, label);
    const fact = { kind, seam, agent: this.agent, name, site: place, input: given, attributes };
    return new Crossing(this, fact, cause ?? this.lanes.current);
  }

  /**
   * @param {Site | null} site
   * @param {string} seam
   * @param {string} label
   */
  place(site, seam, label) {
    const key = `${site?.module}\n${site?.qualname}\n${seam}\n${label}`;
    let found = this.places.get(key);
    if (found === undefined) {
      found = siteOf(site?.module ?? "", site?.qualname ?? "", seam, label);
      this.places.set(key, found);
    }
    return found;
  }

  /**
   * @template T
   * @param {() => T} act
   * @returns {T}
   */
  muted(act) {
    return inside.run({ session: this, mute: true }, act);
  }

  /** Nanoseconds after the recording began. */
  elapsed() {
    return Math.max(0, Math.round((now() - this.began) * 1e6));
  }

  /**
   * Write; a fault of ours costs the event, never the agent.
   * @param {Fact} fact
   */
  write(fact) {
    try {
      return this.writer.event(fact);
    } catch {
      this.writer.drop();
      return null;
    }
  }
}

/** One crossing of a seam, from `Session.enter`. It is over once. */
export class Crossing {
  /**
   * @param {Session} session
   * @param {Fact} fact
   * @param {import("./lanes.js").Frontier} cause
   */
  constructor(session, fact, cause) {
    this.session = session;
    this.cause = cause;
    this.over = false;
    /** @type {string[]} */
    this.chunks = [];
    /** The event that holds the answer. @type {number | null} */
    this.seq = null;
    this.start = session.elapsed();
    this.fact = { ...fact, cause, start: this.start };
    this.call = -1;
    if (fact.kind === "tool_call") {
      const seq = session.write(this.fact);
      if (seq !== null) session.lanes.causes[seq] = cause;
      this.call = seq ?? -1;
    }
    session.open.add(this);
  }

  /**
   * One piece of a stream, as it passes.
   * @param {any} piece
   */
  chunk(piece) {
    if (this.over) return;
    const digest = this.session.writer.chunk(piece);
    if (digest !== null) this.chunks.push(digest);
  }

  /**
   * The answer is there.
   * @param {any} [output]
   * @param {object} [more]
   * @param {Status} [more.status]
   * @param {[string, string | null] | null} [more.error] an answer that says so, as HTTP's do
   * @param {Record<string, number>} [more.usage]
   * @param {Record<string, any>} [more.attributes]
   */
  done(output = NOTHING, { status = "ok", error = null, usage = {}, attributes = {} } = {}) {
    if (this.over) return;
    this.over = true;
    const { session, fact } = this;
    session.open.delete(this);
    const answers = fact.kind === "tool_call";
    if (answers && this.call < 0) return;
    const cause = answers ? [this.call] : this.cause;
    /** @type {Fact} */
    const answer = answers
      ? { ...fact, kind: "tool_result", input: NOTHING, attributes, cause }
      : { ...fact, attributes: { ...fact.attributes, ...attributes } };
    const { chunks } = this;
    const end = session.elapsed();
    this.seq = session.write({ ...answer, output, status, error, usage, chunks, end });
    if (this.seq !== null) session.lanes.passed(this.seq, cause);
  }

  /**
   * The real thing threw; one that was aborted is cancelled.
   * @param {any} error
   * @param {Record<string, any>} [attributes]
   * @param {AbortSignal} [signal] what may have stopped it
   */
  failed(error, attributes, signal) {
    if (isCancellation(error, signal)) this.cancelled();
    else {
      const raised = { raised: [messageOf(error) ?? ""] };
      const output = attributes === undefined ? raised : NOTHING;
      const told = /** @type {[string, string | null]} */ ([nameOf(error), messageOf(error)]);
      this.done(output, { status: "error", error: told, attributes });
    }
  }

  /** Nobody waits for the answer any more. */
  cancelled() {
    this.done(NOTHING, { status: "cancelled" });
  }

  /** What is done next here comes after the answer. */
  settle() {
    if (this.seq !== null) this.session.lanes.after(this.seq);
  }
}

/**
 * Whether somebody stopped it: by the error's name, or for the reason the signal was aborted with.
 * @param {any} error
 * @param {AbortSignal} [signal]
 */
export function isCancellation(error, signal) {
  const name = peek(() => error?.name);
  if (CANCELLED.includes(name)) return true;
  return Boolean(signal?.aborted) && error === signal?.reason && name !== "TimeoutError";
}

/**
 * An error's class; of a DOMException, which are of one class all, its name.
 * @param {any} error
 */
export function nameOf(error) {
  const name = peek(() => {
    if (!(error instanceof Error)) return typeof error;
    return error instanceof DOMException ? error.name : (error.constructor?.name ?? error.name);
  });
  return String(name || "Error");
}

/**
 * @param {any} error
 * @returns {string | null}
 */
export function messageOf(error) {
  return peek(() => String(error instanceof Error ? error.message : error)) ?? null;
}

/**
 * What a look at something of the agent's gives; undefined where that throws.
 * @template T
 * @param {() => T} look
 */
function peek(look) {
  try {
    return look();
  } catch {
    return undefined;
  }
}
