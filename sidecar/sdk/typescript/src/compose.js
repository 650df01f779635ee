/**
 * The writing side: facts in, lines out, in the order in which they must be written; the twin of
 * `sidecar/tape/compose.py`.
 *
 * **Rules**
 * 1. A payload is encoded, redacted and only then hashed. A small one stands in its event, a larger
 *    one is a blob that comes before it. Without content only digests are kept.
 * 2. What no tape can hold, or is too large, is counted as truncated, never guessed at.
 * 3. Exactly one terminal event, the last; what comes later is counted and left out.
 */
import { address, canonical, NotCanonical, sha256 } from "./canonical.js";
import { BLOB_BYTES_MAX, CODECS, INLINE_BYTES_MAX, SCHEMA, SEAMS_OF } from "./forms.js";
import { Paths } from "./paths.js";
import { Sealer } from "./seal.js";
import { encoded } from "./value.js";

/** @typedef {keyof typeof SEAMS_OF} Kind */
/** @typedef {"ok" | "error" | "cancelled" | "unset"} Status */
/**
 * One event as it is written; members at their defaults are left out.
 * @typedef {object} Event
 * @property {number} seq
 * @property {Kind} kind
 * @property {string} [seam]
 * @property {string} [site]
 * @property {number} [ord]
 * @property {string} [agent]
 * @property {number[]} [cause]
 * @property {number} [lam]
 * @property {string} [name]
 * @property {string} [in]
 * @property {string} [out]
 * @property {string} [in_n]
 * @property {string} [out_n]
 * @property {string[]} [chunks]
 * @property {Status} [st]
 * @property {Map<string, string>} [err]
 */
/**
 * What a recorder says of one event; the rest follows from the tape. An input or output that is
 * `NOTHING` is none; `LOST` is one that no tape can hold.
 * @typedef {object} Fact
 * @property {Kind} kind
 * @property {string} [seam]
 * @property {string} agent
 * @property {string} [name]
 * @property {string} [site]
 * @property {any} [input]
 * @property {any} [output]
 * @property {Status} [status]
 * @property {[string, string | null] | null} [error]
 * @property {readonly number[]} [cause]
 * @property {readonly string[]} [chunks]
 * @property {number} [start] nanoseconds after `captured_at`
 * @property {number} [end]
 * @property {Record<string, number>} [usage]
 * @property {Record<string, any>} [attributes]
 */
/** @typedef {{ value(value: any, seen?: Set<string> | null): any, identity: Map<string, string> }} Redacts */
/** @typedef {{ digest?: string, normal?: string, inline?: any, text?: string }} Payload */

export const NOTHING = Symbol("nothing");
export const LOST = Symbol("lost");
const SEEN_MAX = 1000;
const WORDS_MAX = 1000;
const VOLATILE = new Map(
  Object.entries(CODECS).map(([seam, codec]) => [
    seam,
    { input: new Paths(codec.input.volatile), output: new Paths(codec.output.volatile) },
  ]),
);

/**
 * Where a call is made, never by line: `s:<16 hex>` of module, name, seam and label.
 * @param {string} module
 * @param {string} qualname
 * @param {string} seam
 * @param {string} label
 */
export function siteOf(module, qualname, seam, label) {
  return `s:${sha256(canonical([module, qualname, seam, label])).slice(0, 16)}`;
}

/** One tape being written. */
export class Composer {
  /**
   * @param {Record<string, any>} header what it says beyond schema, codecs and redactor
   * @param {(digest: string, text: string) => void} put keeps a payload before its event
   * @param {{ redactor: Redacts, content: boolean }} options
   */
  constructor(header, put, { redactor, content }) {
    this.redactor = redactor;
    this.content = content;
    this.put = put;
    /** @type {Set<string>} */
    this.seen = new Set();
    this.header = this.headed(header);
    this.sealer = new Sealer(this.header);
    /** @type {Map<string, number>} */
    this.ords = new Map();
    /** @type {Map<string, number>} */
    this.lamports = new Map();
    /** @type {number[]} */
    this.lams = [];
    /** @type {Map<string, string>} */
    this.words = new Map();
    this.dropped = 0;
    this.truncated = 0;
    this.late = 0;
    this.ended = false;
  }

  /** Keep the codecs' definitions: after the header, before the first event. */
  putCodecs() {
    for (const codec of Object.values(CODECS)) {
      const text = canonical(encoded(codec));
      this.keep(address(text), text);
    }
  }

  /**
   * Keep a payload now, a piece of a stream; its digest, or null where it has none.
   * @param {any} value
   */
  chunk(value) {
    const found = this.payload(value);
    this.keepWhole(found);
    return found.digest ?? null;
  }

  /**
   * The line of one more event, and its seq; null where it came after the terminal one.
   * @param {Fact} fact
   */
  event(fact) {
    if (this.ended) {
      this.late += 1;
      return null;
    }
    if (!SEAMS_OF[fact.kind].includes(fact.seam ?? "")) {
      throw new TypeError(`${fact.kind} does not enter at ${fact.seam}`);
    }
    const seq = this.sealer.events;
    const agent = this.word(fact.agent);
    const name = this.word(fact.name ?? "");
    const cause = [...new Set(fact.cause ?? [])].sort((a, b) => a - b);
    const asked = this.payload(fact.input, VOLATILE.get(fact.seam ?? "")?.input);
    const given = this.payload(fact.output, VOLATILE.get(fact.seam ?? "")?.output);
    const place = canonical([agent, fact.site || name, fact.kind]);
    const ord = this.ords.get(place) ?? 0;
    const before = cause.reduce((most, one) => Math.max(most, this.lams[one]), -1);
    const lam = 1 + Math.max(before, this.lamports.get(agent) ?? -1);
    const inline = new Map();
    if (this.content && asked.inline !== undefined) inline.set("in", asked.inline);
    if (this.content && given.inline !== undefined) inline.set("out", given.inline);
    /** @type {Event} */
    const event = {
      seq,
      kind: fact.kind,
      seam: fact.seam,
      site: fact.site || undefined,
      ord: ord || undefined,
      agent: agent || undefined,
      cause: cause.length > 0 ? cause : undefined,
      lam: lam || undefined,
      name: name || undefined,
      in: asked.digest,
      out: given.digest,
      in_n: asked.normal,
      out_n: given.normal,
      chunks: fact.chunks?.length ? [...fact.chunks] : undefined,
      st: fact.status === "unset" ? undefined : fact.status,
      err: this.error(fact.error ?? null),
    };
    const more = {
      rec: "event",
      v: 1,
      inl: inline,
      t: members({ start: fact.start, end: fact.end }),
      use: members(fact.usage ?? {}),
      attr: this.attributes(fact.attributes ?? {}),
    };
    const text = canonical(record({ ...event, ...more }));
    this.ords.set(place, ord + 1);
    this.lamports.set(agent, lam);
    this.lams.push(lam);
    this.sealer.addEvent(event, text);
    this.ended = fact.kind === "terminal";
    return { seq, line: text };
  }

  /**
   * The last record, once the terminal event was written.
   * @param {{ sought: number, found: number }} leaks
   */
  seal(leaks) {
    const { dropped, truncated, late } = this;
    const counters = Object.entries({ dropped, truncated, after_terminal: late });
    return this.sealer.seal(new Map(counters), new Map(Object.entries(leaks)));
  }

  /**
   * @param {any} value
   * @param {Paths} [volatile]
   * @returns {Payload}
   */
  payload(value, volatile) {
    if (value === NOTHING || value === undefined) return {};
    let redacted, text;
    try {
      if (value === LOST) throw new NotCanonical("it was not kept");
      redacted = this.redactor.value(encoded(value), this.seen.size < SEEN_MAX ? this.seen : null);
      text = canonical(redacted);
    } catch (error) {
      if (!(error instanceof NotCanonical || error instanceof RangeError)) throw error;
      this.truncated += 1;
      return {};
    }
    const digest = address(text);
    const projected = volatile && address(canonical(volatile.without(redacted)));
    const normal = projected === digest ? undefined : projected;
    if (Buffer.byteLength(text) <= INLINE_BYTES_MAX) return { digest, normal, inline: redacted, text };
    if (this.content) {
      if (Buffer.byteLength(text) > BLOB_BYTES_MAX) this.truncated += 1;
      else this.keep(digest, text);
    }
    return { digest, normal };
  }

  /** @param {Payload} found */
  keepWhole(found) {
    if (found.digest !== undefined && found.text !== undefined && this.content) {
      this.keep(found.digest, found.text);
    }
  }

  /**
   * @param {string} digest
   * @param {string} text
   */
  keep(digest, text) {
    if (this.sealer.blobs.has(digest)) return;
    this.put(digest, text);
    this.sealer.blobs.set(digest, Buffer.byteLength(text));
  }

  /** @param {[string, string | null] | null} error */
  error(error) {
    if (error === null) return undefined;
    const [type, message] = error;
    const found = message === null ? {} : this.payload(message);
    this.keepWhole(found);
    return members({ type: this.word(type), message: found.digest });
  }

  /**
   * A name redacted (they come again and again); what no UTF-8 has is a question mark.
   * @param {string} text
   */
  word(text) {
    let found = this.words.get(text);
    if (found === undefined) {
      const plain = text.replace(/\p{Surrogate}/gu, "?");
      found = plain && String(this.redactor.value(plain, this.seen));
      if (this.words.size < WORDS_MAX) this.words.set(text, found);
    }
    return found;
  }

  /** @param {Record<string, any>} attributes */
  attributes(attributes) {
    try {
      const found = this.redactor.value(encoded(attributes), this.seen);
      canonical(found);
      return found;
    } catch (error) {
      if (!(error instanceof NotCanonical || error instanceof RangeError)) throw error;
      this.truncated += 1;
      return new Map();
    }
  }

  /**
   * @param {Record<string, any>} said
   * @returns {Map<string, any>}
   */
  headed({ argv = [], labels = {}, agent = {}, ...said }) {
    const told = (/** @type {any} */ value) => this.redactor.value(encoded(value), this.seen);
    const codecs = Object.entries(CODECS).map(([seam, codec]) => [seam, address(canonical(encoded(codec)))]);
    const { manifest, ...build } = agent;
    return record({
      rec: "header",
      schema: SCHEMA,
      ...said,
      redactor: this.redactor.identity,
      codecs: new Map(/** @type {[string, string][]} */ (codecs)),
      argv: this.arguments(argv),
      labels: told(labels),
      agent: members({ ...Object.fromEntries(told(build)), manifest }),
    });
  }

  /**
   * Arguments redacted, each also as the value of the option before it.
   * @param {readonly string[]} argv
   */
  arguments(argv) {
    let option = "";
    return argv.map((text) => {
      const [name, ...rest] = text.split("=");
      const named = rest.length > 0 && name.startsWith("-");
      const after = named
        ? `${name}=${this.optional(name, rest.join("="))}`
        : this.optional(option, text);
      option = text.startsWith("-") && rest.length === 0 ? text : "";
      return after;
    });
  }

  /**
   * @param {string} option
   * @param {string} text
   */
  optional(option, text) {
    const [value] = this.redactor.value(new Map([[option.replace(/^-+/, ""), text]]), this.seen).values();
    return String(value);
  }
}

/**
 * A record without what is at its default.
 * @param {Record<string, any>} said
 */
function record(said) {
  const found = members(said);
  for (const [key, value] of found) {
    const empty = Array.isArray(value) ? value.length === 0 : value instanceof Map && value.size === 0;
    if (empty) found.delete(key);
  }
  return found;
}

/**
 * @param {Record<string, any>} said
 * @returns {Map<string, any>}
 */
function members(said) {
  return new Map(Object.entries(said).filter(([, value]) => value !== undefined));
}
