/**
 * A tape written to a new file while things happen, so that a crash leaves a partial tape.
 *
 * **Rules**
 * 1. An event is one append of its line and of the blobs it needs. The first append that fails is the
 *    last: later events are counted as dropped, and the agent goes on.
 * 2. Before the seal, what redaction took away by place or key is looked for in all that was written.
 */
import { closeSync, fsyncSync, openSync, readFileSync, writeSync } from "node:fs";
import { gunzipSync, gzipSync } from "node:zlib";
import { canonical } from "./canonical.js";
import { Composer } from "./compose.js";
import { GZIP_FROM } from "./forms.js";

/** @typedef {import("./compose.js").Fact} Fact */

/** The real ones: what an agent or a test puts in their place is not the tape's. */
const file = { closeSync, fsyncSync, openSync, readFileSync, writeSync };

export class TapeWriter {
  /**
   * Throws where there is a file already, or none can be made.
   * @param {string} path
   * @param {Record<string, any>} header
   * @param {{ redactor: import("./compose.js").Redacts, content: boolean }} options
   */
  constructor(path, header, options) {
    this.path = path;
    /** @type {string | null} */
    this.fault = null;
    this.waiting = "";
    this.dropped = 0;
    this.composer = new Composer(header, (digest, text) => this.blob(digest, text), options);
    this.descriptor = file.openSync(path, "ax", 0o600);
    this.waiting = `${canonical(this.composer.header)}\n`;
    this.composer.putCodecs();
    this.append();
  }

  /**
   * Write one event; its seq, or null where it was counted instead.
   * @param {Fact} fact
   */
  event(fact) {
    if (!this.may()) return null;
    const found = this.composer.event(fact);
    if (found === null) return null;
    this.waiting += `${found.line}\n`;
    this.append();
    return this.fault === null ? found.seq : null;
  }

  /**
   * Write a piece of a stream; its digest.
   * @param {any} value
   */
  chunk(value) {
    if (!this.may()) return null;
    const digest = this.composer.chunk(value);
    this.append();
    return this.fault === null ? digest : null;
  }

  /** Count one event that could not be handed in. */
  drop() {
    this.dropped += 1;
  }

  /** Look for leaks, write the seal and close. Throws where it cannot be. */
  seal() {
    if (this.fault === null) {
      this.composer.dropped += this.dropped;
      this.guarded(() => file.fsyncSync(this.descriptor));
      this.waiting += `${canonical(this.composer.seal(this.leaks()))}\n`;
      this.append();
      this.guarded(() => file.fsyncSync(this.descriptor));
    }
    this.close();
    if (this.fault !== null) throw new Error(`${this.path}: the tape stays partial: ${this.fault}`);
  }

  /** Close the file; a tape that was not sealed stays partial. */
  close() {
    if (this.descriptor >= 0) file.closeSync(this.descriptor);
    this.descriptor = -1;
  }

  may() {
    if (this.descriptor >= 0 && this.fault === null) return true;
    this.dropped += 1;
    return false;
  }

  /**
   * @param {string} digest
   * @param {string} text
   */
  blob(digest, text) {
    const data = Buffer.from(text);
    const gz = data.length > GZIP_FROM;
    const inner = (gz ? gzipSync(data, { level: 6 }) : data).toString("base64");
    const said = { rec: "blob", id: digest, size: data.length, data: inner, ...(gz ? { gz } : {}) };
    this.waiting += `${canonical(new Map(Object.entries(said)))}\n`;
  }

  append() {
    const data = Buffer.from(this.waiting);
    this.waiting = "";
    const written = this.guarded(() => {
      for (let place = 0; place < data.length; ) place += file.writeSync(this.descriptor, data, place);
    });
    if (!written) this.dropped += 1;
  }

  /** @param {() => void} act */
  guarded(act) {
    if (this.fault !== null) return false;
    try {
      act();
    } catch (error) {
      this.fault = error instanceof Error ? error.message : String(error);
    }
    return this.fault === null;
  }

  leaks() {
    const sought = [...this.composer.seen];
    if (sought.length === 0) return { sought: 0, found: 0 };
    const lines = file.readFileSync(this.path, "utf8").split("\n");
    const texts = lines.map((line) => (line.includes('"rec":"blob"') ? inside(line) : line));
    const found = sought.filter((text) =>
      spellings(text).some((spelt) => texts.some((one) => one.includes(spelt))),
    );
    return { sought: sought.length, found: found.length };
  }
}

/** @param {string} line */
function inside(line) {
  const { data, gz } = JSON.parse(line);
  const bytes = Buffer.from(data ?? "", "base64");
  return (gz ? gunzipSync(bytes) : bytes).toString();
}

/** @param {string} text */
function spellings(text) {
  const plain = JSON.stringify(text).slice(1, -1);
  const ascii = plain.replace(/[^\x20-\x7e]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
  return [text, plain, ascii];
}
