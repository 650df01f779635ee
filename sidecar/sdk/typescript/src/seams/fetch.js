/**
 * The seams PROVIDER and HTTP: what an agent and its libraries ask by the global `fetch`.
 *
 * **Rules**
 * 1. What passes is passed on as it came, before anything else is waited for. A body beyond
 *    `BODY_BYTES_MAX` passes too, and is not kept.
 * 2. A fault of ours costs the answer on the tape, never the agent's.
 */
import { LOST, NOTHING } from "../compose.js";
import { answered, byName, callOf, outOf, unread, usageOf } from "../exchange.js";
import { BODY_BYTES_MAX } from "../forms.js";
import { Cutter, cutOf, payloadOf } from "../pieces.js";
import { current, isCancellation, messageOf, nameOf } from "../session.js";
import { Answer } from "../streamed.js";

/** @typedef {import("../session.js").Crossing} Crossing */
/** @typedef {import("../session.js").Session} Session */
/** @typedef {import("../compose.js").Status} Status */
/** @typedef {typeof globalThis.fetch} Fetch */

const EVENTS_MAX = 100_000;
const BODILESS = [101, 103, 204, 205, 304];
/** @type {WeakSet<Fetch>} */
const standIns = new WeakSet();
const READERS = ["arrayBuffer", "blob", "bytes", "formData", "json", "text"];

/**
 * Stand in for the global `fetch` until what is returned is called; not twice. Outside of a recording
 * it is the one that was there.
 */
export function install() {
  const real = globalThis.fetch;
  if (standIns.has(real)) return () => {};
  /** @type {Fetch} */
  const standIn = (input, init) => {
    const session = current();
    return session === null ? real(input, init) : exchanged(session, real, input, init);
  };
  standIns.add(standIn);
  globalThis.fetch = standIn;
  return () => {
    if (globalThis.fetch === standIn) globalThis.fetch = real;
  };
}

/**
 * @param {Session} session
 * @param {Fetch} real
 * @param {Parameters<Fetch>[0]} input
 * @param {RequestInit} [init]
 */
async function exchanged(session, real, input, init) {
  const site = session.sites.first();
  const cause = session.lanes.current;
  const request = session.muted(() => new Request(input, init)); // what is wrong with it is thrown
  const sent = request.clone();
  const body = request.body === null ? "" : await session.muted(() => request.arrayBuffer());
  const { method, url, headers } = sent;
  const asked = {
    method,
    url: url.split("#")[0],
    headers: [...headers],
    body: typeof body === "string" ? new Uint8Array() : new Uint8Array(body),
  };
  const x = session.enter({ ...call(asked), site, cause });
  let response;
  try {
    const options = /** @type {any} */ (init)?.dispatcher && { dispatcher: /** @type {any} */ (init).dispatcher };
    response = await session.muted(() => real(sent, options));
  } catch (error) {
    x.failed(error, { http: { sending: true } }, sent.signal);
    throw error;
  }
  return recorded(x, response, sent.signal);
}

/** @param {import("../exchange.js").Asked} asked */
function call(asked) {
  try {
    return callOf(asked);
  } catch {
    return unread(asked); // a fault of ours, never the agent's
  }
}

/**
 * The response that the agent reads: what it reads of it is recorded as it passes.
 * @param {Crossing} x
 * @param {Response} response
 * @param {AbortSignal} signal
 */
function recorded(x, response, signal) {
  const recording = new Recording(x, response, signal);
  if (response.body === null || BODILESS.includes(response.status)) {
    recording.end();
    return response;
  }
  const reader = response.body.getReader();
  const { session } = x;
  const body = new ReadableStream(
    {
      type: "bytes", // as that of fetch: a reader may bring its own buffer
      async pull(controller) {
        try {
          const { done, value } = await session.muted(() => reader.read());
          if (done) {
            recording.end();
            controller.close();
            controller.byobRequest?.respond(0);
          } else {
            recording.feed(value);
            controller.enqueue(value); // from here on its bytes are the reader's
          }
        } catch (error) {
          recording.failed(error);
          controller.error(error);
        }
      },
      cancel(reason) {
        recording.closed();
        return reader.cancel(reason);
      },
    },
    { highWaterMark: 0 },
  );
  const { status, statusText, headers } = response;
  return dressed(x, new Response(body, { status, statusText, headers }), response);
}

/**
 * A response with what only a fetch gives one, and its clones.
 * @param {Crossing} x
 * @param {Response} made
 * @param {Response} response the one that came
 */
function dressed(x, made, response) {
  const { url, redirected, type } = response;
  const clone = () => dressed(x, Response.prototype.clone.call(made), response);
  for (const [name, value] of Object.entries({ url, redirected, type, clone })) {
    Object.defineProperty(made, name, { value, configurable: true });
  }
  for (const name of READERS) {
    const read = /** @type {any} */ (Response.prototype)[name];
    if (read === undefined) continue; // `bytes` is of newer Nodes
    Object.defineProperty(made, name, {
      configurable: true,
      value: async () => {
        try {
          return await read.call(made);
        } finally {
          x.settle(); // a stream's own readers lead by no promise to who waits for them
        }
      },
    });
  }
  return made;
}

/** A live answer as its reader has it. */
class Recording {
  /**
   * @param {Crossing} x
   * @param {Response} response
   * @param {AbortSignal} signal
   */
  constructor(x, response, signal) {
    this.x = x;
    this.signal = signal;
    this.status = response.status;
    this.reason = response.statusText;
    this.headers = [...response.headers];
    this.cut = cutOf(byName(this.headers));
    this.cutter = this.cut === null ? null : new Cutter(this.cut);
    this.answer = this.cut === "event" ? new Answer() : null;
    /** @type {Uint8Array[]} */
    this.whole = [];
    this.bytes = 0;
    this.pieces = 0;
    this.kept = true;
    this.over = false;
    this.close = () => this.closed();
    x.session.closers.add(this.close);
  }

  /**
   * A piece as it passes.
   * @param {Uint8Array} data
   */
  feed(data) {
    if (!this.over) this.guarded(() => this.take(data));
  }

  /** The whole answer has come. */
  end() {
    if (this.over) return;
    this.guarded(() => this.finish());
    this.tell("ok", null, {});
  }

  /** The agent reads no further. */
  closed() {
    if (this.over) return;
    this.guarded(() => this.finish());
    if (this.answer?.ended) this.tell("ok", null, {});
    else this.tell(this.cut === null ? "ok" : "cancelled", null, { unread: true });
  }

  /**
   * The answer broke off.
   * @param {unknown} error
   */
  failed(error) {
    if (this.over) return;
    if (isCancellation(error, this.signal)) this.closed();
    else {
      this.guarded(() => this.finish());
      this.tell("error", [nameOf(error), messageOf(error)], { broke: true });
    }
  }

  /** @param {() => void} act */
  guarded(act) {
    try {
      act();
    } catch {
      this.kept = false;
    }
  }

  /** @param {Uint8Array} data */
  take(data) {
    this.bytes += data.length;
    if (this.bytes > BODY_BYTES_MAX) {
      this.kept = false;
      this.whole = [];
    } else if (this.cutter === null) this.whole.push(data.slice());
    else for (const piece of this.cutter.feed(data)) this.put(piece);
  }

  /** @param {Buffer} piece */
  put(piece) {
    this.pieces += 1;
    if (this.pieces > EVENTS_MAX || this.cut === null) {
      this.kept = false;
      return;
    }
    const payload = payloadOf(piece, this.cut);
    this.x.chunk(payload);
    this.answer?.add(payload);
  }

  finish() {
    if (this.kept) for (const piece of this.cutter?.left() ?? []) this.put(piece);
  }

  /**
   * @param {Status} status
   * @param {[string, string | null] | null} error
   * @param {Record<string, any>} more
   */
  tell(status, error, more) {
    this.over = true;
    this.x.session.closers.delete(this.close);
    const seam = this.x.fact.kind === "llm_call" ? "provider" : "http";
    const whole = answered(Buffer.concat(this.whole));
    const hint = this.kept ? more : { lost: true };
    const { reason, headers } = this;
    const body = this.answer?.value ?? whole;
    const { output, attributes } = outOf(seam, { status: this.status, reason, headers, body, hint });
    const failed = status === "ok" && this.status >= 400;
    this.x.done(this.kept ? (output ?? NOTHING) : LOST, {
      status: failed ? "error" : status,
      error: failed ? [`HTTP ${this.status}`, reason] : error,
      usage: seam === "provider" ? usageOf(output) : {},
      attributes,
    });
  }
}
