/**
 * What a seal holds: digests over all records of a tape, made as they come; the twin of
 * `sidecar/tape/seal.py` and `behaviour.py`.
 *
 * **Rules**
 * 1. An event without `cause` comes after everything its agent did before; one with causes comes after
 *    those and nothing else.
 * 2. No codec used here mints identifiers, so that none is renamed.
 */
import { canonical, hashed, sha256 } from "./canonical.js";

/** @typedef {import("./compose.js").Event} Event */

const EXACT = "agenttwin-tape-exact/1\n";
const CHAIN = "agenttwin-tape-chain/1\n";
const BLOBS = "agenttwin-tape-blobs/1\n";
const BEHAVIOUR = "agenttwin-tape-behavior/1\n";

/** Fed the records of a tape in order. */
export class Sealer {
  /**
   * @param {Map<string, any>} header
   */
  constructor(header) {
    this.events = 0;
    this.codecs = canonical(header.get("codecs"));
    this.behaviour = new Behaviour(this.codecs);
    this.exact = hashed([EXACT, this.codecs]);
    this.chain = hashed([CHAIN, canonical(header)]);
    /** @type {Map<string, number>} */
    this.blobs = new Map();
  }

  /**
   * @param {Event} event
   * @param {string} text its canonical form
   */
  addEvent(event, text) {
    this.exact = hashed([this.exact, canonical(identity(event))]);
    this.chain = hashed([this.chain, text]);
    this.behaviour.add(event);
    this.events += 1;
  }

  /**
   * The seal of what was fed so far, as a record.
   * @param {Map<string, number>} counters
   * @param {Map<string, number>} leaks
   */
  seal(counters, leaks) {
    const listed = [...this.blobs].sort(([one], [other]) => (one < other ? -1 : 1));
    const bytes = listed.reduce((sum, [, size]) => sum + size, 0);
    const root = `sha256:${sha256(BLOBS, canonical(listed))}`;
    const told = new Map(
      /** @type {[string, any][]} */ ([
        ["rec", "seal"],
        ["events", this.events],
        ["exact_digest", `sha256:${this.exact.toString("hex")}`],
        ["behavior_digest", this.behaviour.digest()],
        ["blobs", new Map(Object.entries({ n: listed.length, bytes, root }))],
        ["counters", counters],
        ["leaks", leaks],
      ]),
    );
    return told.set("chain", `sha256:${sha256(this.chain, canonical(told))}`);
  }
}

/** What an agent did, whatever the order in which things at the same time came to be written. */
class Behaviour {
  /** @param {string} codecs */
  constructor(codecs) {
    this.codecs = codecs;
    /** @type {Map<string, { frontier: number[], done: number[] }>} */
    this.lanes = new Map();
    /** @type {Buffer[]} */
    this.known = [];
    /** @type {number[]} */
    this.depths = [];
  }

  /** @param {Event} event */
  add(event) {
    const agent = event.agent ?? "";
    const lane = this.lanes.get(agent) ?? { frontier: [], done: [] };
    this.lanes.set(agent, lane);
    const cause = event.cause ?? [];
    const before = cause.length > 0 ? cause : [...lane.frontier];
    const asked = event.in_n ?? event.in ?? null;
    const name = event.name || event.site || "";
    const label = canonical([event.kind, event.seam ?? null, name, asked, event.st ?? "unset"]);
    const digests = before.map((seq) => this.known[seq]).sort(Buffer.compare);
    const seq = this.depths.length;
    this.known.push(hashed([BEHAVIOUR, hashed([label]), ...digests]));
    this.depths.push(1 + before.reduce((most, one) => Math.max(most, this.depths[one]), 0));
    if (cause.length === 0) lane.frontier = [];
    lane.frontier.push(seq);
    lane.done.push(seq);
  }

  digest() {
    /** @type {(string | Buffer)[]} */
    const parts = [BEHAVIOUR, this.codecs, "\n"];
    for (const agent of [...this.lanes.keys()].sort(byPoints)) {
      const { done } = /** @type {{ done: number[] }} */ (this.lanes.get(agent));
      parts.push(canonical([agent, done.length]), "\n");
      const keys = done.map((seq) => {
        const depth = Buffer.alloc(8);
        depth.writeBigUInt64BE(BigInt(this.depths[seq]));
        return Buffer.concat([depth, this.known[seq]]);
      });
      parts.push(...keys.sort(Buffer.compare).map((key) => key.subarray(8)));
    }
    return `sha256:${sha256(...parts)}`;
  }
}

/** @param {Event} event */
function identity(event) {
  const { err } = event;
  return [
    event.seq,
    event.kind,
    event.seam ?? null,
    event.site ?? "",
    event.ord ?? 0,
    event.agent ?? "",
    event.cause ?? [],
    event.lam ?? 0,
    event.name ?? "",
    event.in_n ?? event.in ?? null,
    event.out_n ?? event.out ?? null,
    event.chunks ?? [],
    event.st ?? "unset",
    err === undefined ? null : [err.get("type"), err.get("message") ?? null],
  ];
}

/**
 * @param {string} one
 * @param {string} other
 */
function byPoints(one, other) {
  return Buffer.compare(Buffer.from(one), Buffer.from(other)); // UTF-8 has the order of code points
}
