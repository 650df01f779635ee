/**
 * Streamed bodies cut into pieces, wherever a network cuts them; the twin of
 * `sidecar/capture/pieces.py`.
 *
 * **Rules**
 * 1. Server-sent events are cut after each event, lines of JSON after each line; other streams where
 *    they were when they passed. So two recordings of one answer have the same pieces.
 */
import { PIECE_BYTES_MAX, STREAMED_AS_IT_CAME, STREAMED_LINES } from "./forms.js";

/** @typedef {"event" | "line" | "as it came"} Cut */

const EVENT_ENDS = ["\r\n\r\n", "\n\n", "\r\r"].map((end) => Buffer.from(end));
const LINE_ENDS = [Buffer.from("\n")];
const FIELDS = ["event", "id", "retry", "data"];

/**
 * How the body under these headers is cut; null where it is one whole.
 * @param {Record<string, any>} headers
 * @returns {Cut | null}
 */
export function cutOf(headers) {
  const media = String(headers["content-type"] ?? "").split(";")[0].trim().toLowerCase();
  if (media === "text/event-stream") return "event";
  if (STREAMED_LINES.includes(media)) return "line";
  return STREAMED_AS_IT_CAME.includes(media) && !("content-length" in headers) ? "as it came" : null;
}

/** Takes bytes as they come and gives pieces as they are complete. */
export class Cutter {
  /** @param {Cut} cut */
  constructor(cut) {
    this.ends = cut === "event" ? EVENT_ENDS : cut === "line" ? LINE_ENDS : null;
    this.rest = Buffer.alloc(0);
    this.searched = 0;
  }

  /**
   * The pieces that are complete now.
   * @param {Uint8Array} data
   * @returns {Buffer[]}
   */
  feed(data) {
    if (this.ends === null) return data.length > 0 ? [Buffer.from(data)] : [];
    const found = [];
    this.rest = Buffer.concat([this.rest, data]);
    for (let end = this.end(); end > 0; end = this.end()) {
      found.push(this.rest.subarray(0, end));
      this.rest = this.rest.subarray(end);
      this.searched = 0;
    }
    return this.rest.length > PIECE_BYTES_MAX ? [...found, ...this.left()] : found;
  }

  /** What is left. */
  left() {
    const found = this.rest.length > 0 ? [this.rest] : [];
    this.rest = Buffer.alloc(0);
    this.searched = 0;
    return found;
  }

  /** Where the first piece ends; 0 where none does yet. */
  end() {
    let [first, size, mark] = [Infinity, 0, ""];
    for (const end of this.ends ?? []) {
      const place = this.rest.indexOf(end, this.searched);
      if (place >= 0 && place < first) [first, size, mark] = [place, end.length, end.toString()];
    }
    if (first === Infinity) {
      this.searched = Math.max(0, this.rest.length - 3);
      return 0;
    }
    // \r may be half of what ends the next line.
    if (mark === "\r\r" && first + size === this.rest.length) {
      this.searched = first;
      return 0;
    }
    return first + size;
  }
}

/**
 * A piece as a tape's payload.
 * @param {Buffer} piece
 * @param {Cut} cut
 * @returns {string | Uint8Array | Record<string, string>}
 */
export function payloadOf(piece, cut) {
  let text;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(piece);
  } catch {
    return piece;
  }
  if (cut !== "event") return text;
  const fields = fieldsOf(text);
  const lines = FIELDS.filter((name) => name in fields).map((name) => `${name}: ${fields[name]}\n`);
  return lines.length > 0 && `${lines.join("")}\n` === text ? fields : text;
}

/**
 * An event's fields; several `data` lines joined, comments and unknown fields left out.
 * @param {string} text
 */
export function fieldsOf(text) {
  /** @type {Record<string, string>} */
  const found = {};
  for (const line of text.split(/\r\n|\n|\r/)) {
    const colon = line.includes(":") ? line.indexOf(":") : line.length;
    const name = line.slice(0, colon);
    const value = line.slice(colon + 1).replace(/^ /, "");
    if (name === "data" && "data" in found) found.data += `\n${value}`;
    else if (FIELDS.includes(name)) found[name] = value;
  }
  return found;
}
