/**
 * Streamed answers of models put together: the answer as it would have been without a stream; the
 * twin of `sidecar/capture/streamed.py`.
 *
 * **Rules**
 * 1. Known: chat completions and completions, responses, messages; the events of another protocol
 *    make nothing. One that is not of its protocol's shape adds nothing.
 * 2. A stream that was cut makes the answer as far as it came. `ended` says whether its own last event
 *    came.
 * 3. Keys are the server's: nothing here has a prototype that one of them could name and change.
 */
import { parsed } from "./exchange.js";
import { STREAM_JOINED, STREAM_LAST } from "./forms.js";
import { fieldsOf } from "./pieces.js";

const ITEMS_MAX = 10_000;

/** One streamed answer, event by event. */
export class Answer {
  constructor() {
    this.ended = false;
    /** @type {any} */
    this.value = null;
    /** @type {Map<number, string>} */
    this.json = new Map();
  }

  /**
   * One more piece, as `payloadOf` gives it.
   * @param {any} payload
   */
  add(payload) {
    const { data, event: named } = typeof payload === "string" ? fieldsOf(payload) : payload;
    if (typeof data !== "string") return;
    if (data.trim() === "[DONE]") {
      this.ended = true;
      return;
    }
    try {
      const event = parsed(data);
      if (!isObject(event)) return;
      const kind = String(event.type || named || "");
      this.ended ||= STREAM_LAST.includes(kind);
      this.take(kind, event);
    } catch {
      // no JSON, or not of its protocol's shape: it adds nothing
    }
  }

  /**
   * @param {string} kind
   * @param {any} event
   */
  take(kind, event) {
    if ("choices" in event) this.completion(event);
    else if (isObject(event.response)) this.value = event.response;
    else if (kind === "error" && this.value === null) this.value = event;
    else if (kind.startsWith("response.") && this.value !== null) {
      this.value.output ??= [];
      this.response(kind, this.value.output, event);
    } else if (/^(?:message|content_block)/.test(kind)) this.message(kind, event);
  }

  /** @param {any} event */
  completion(event) {
    const whole = (this.value ??= bare({ choices: [] }));
    for (const [key, item] of Object.entries(event)) {
      if (key === "object") whole[key] = String(item).replace(/\.chunk$/, "");
      else if (key !== "choices" && (item !== null || !(key in whole))) whole[key] = item;
    }
    for (const choice of event.choices) {
      const mine = at(whole.choices, Number(choice.index ?? 0));
      for (const [key, item] of Object.entries(choice)) {
        if (key === "delta") merge((mine.message ??= bare()), item ?? {});
        else if (key === "text") mine[key] = (mine[key] ?? "") + item;
        else if (item !== null || !(key in mine)) mine[key] = item;
      }
    }
  }

  /**
   * What a response's events say of its output before the whole of it comes.
   * @param {string} kind
   * @param {any[]} output
   * @param {any} event
   */
  response(kind, output, event) {
    const place = Number(event.output_index);
    const item = at(output, place);
    if (kind.startsWith("response.output_item.")) output[place] = event.item;
    else if (kind === "response.content_part.added") {
      Object.assign(at((item.content ??= []), Number(event.content_index)), event.part);
    } else if (kind === "response.output_text.delta" || kind === "response.refusal.delta") {
      const part = at((item.content ??= []), Number(event.content_index));
      const key = kind.includes("text") ? "text" : "refusal";
      part[key] = (part[key] ?? "") + event.delta;
    } else if (kind === "response.function_call_arguments.delta") {
      item.arguments = (item.arguments ?? "") + event.delta;
    }
  }

  /**
   * @param {string} kind
   * @param {any} event
   */
  message(kind, event) {
    if (kind === "message_start") {
      this.value = bare(event.message, { content: [...(event.message.content ?? [])] });
      return;
    }
    if (this.value === null) return;
    const place = Number(event.index);
    if (kind === "message_delta") {
      Object.assign(this.value, event.delta ?? {});
      this.value.usage = bare(this.value.usage, event.usage);
    } else if (kind === "content_block_start") {
      Object.assign(at(this.value.content, place), event.content_block);
    } else if (kind === "content_block_delta") this.block(place, event.delta);
    else if (kind === "content_block_stop" && this.json.has(place)) {
      const text = this.json.get(place);
      this.json.delete(place);
      this.value.content[place].input = parsed(text || "{}");
    }
  }

  /**
   * @param {number} place
   * @param {any} delta
   */
  block(place, delta) {
    const block = this.value.content[place];
    if (delta.type === "input_json_delta") {
      this.json.set(place, (this.json.get(place) ?? "") + delta.partial_json);
      return;
    }
    for (const [key, item] of Object.entries(delta)) {
      if (key === "citation") (block.citations ??= []).push(item);
      else if (key !== "type") {
        const joins = typeof item === "string" && typeof block[key] === "string";
        block[key] = joins && key !== "signature" ? block[key] + item : item;
      }
    }
  }
}

/**
 * @param {any} whole
 * @param {any} delta
 */
function merge(whole, delta) {
  for (const [key, item] of Object.entries(delta)) {
    const before = whole[key];
    if (Array.isArray(item) && item.every(isObject)) {
      const mine = (whole[key] ??= []);
      item.forEach((one, number) => {
        const { index, ...rest } = one;
        merge(at(mine, Number(index ?? number)), rest);
      });
    } else if (isObject(item) && isObject(before)) merge(before, item);
    else if (typeof item === "string" && typeof before === "string" && STREAM_JOINED.includes(key)) {
      whole[key] = before + item;
    } else if (item !== null || !(key in whole)) whole[key] = isObject(item) ? bare(item) : item;
  }
}

/**
 * An object of these members and of no prototype.
 * @param {...any} parts
 */
function bare(...parts) {
  return Object.assign(Object.create(null), ...parts);
}

/**
 * @param {any[]} items
 * @param {number} place
 */
function at(items, place) {
  if (!(place >= 0 && place < ITEMS_MAX)) throw new RangeError("too many");
  while (items.length <= place) items.push(bare());
  return items[place];
}

/**
 * @param {any} value
 * @returns {boolean}
 */
function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
