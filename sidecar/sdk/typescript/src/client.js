/**
 * What the SDK does with an agent's own OpenTelemetry: claims onto the current span, and spans
 * redacted before any exporter sees them.
 *
 * **Rules**
 * 1. `@opentelemetry/api` is used where the agent has installed it, and is not needed.
 * 2. Nothing here fails an agent. A span that cannot be looked at is not exported, and counted.
 */
import { createRequire } from "node:module";
import { EVENT } from "./claims.js";
import { DEFAULT, redact, redactAttributes } from "./redact.js";

/** @typedef {import("./redaction.js").Redactor} Redactor */
/** @typedef {{ isRecording(): boolean, addEvent(name: string, attributes: any): unknown }} Span */

/** @type {any} */
let api;

/** @type {Set<(status: string) => void>} */
const listeners = new Set();

/**
 * Hear the status of each claim that is told, until what is returned is called.
 * @param {(status: string) => void} listener
 */
export function onClaim(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/**
 * Put a claim onto a span, else the agent's current one, as an event of it. False where there is no
 * span that records.
 * @param {import("./claims.js").Attributes} said
 * @param {Span} [span]
 */
export function tell(said, span = activeSpan()) {
  for (const listener of listeners) listener(String(said[`${EVENT}.status`]));
  if (!span?.isRecording()) return false;
  span.addEvent(EVENT, said);
  return true;
}

/** A span exporter around another one: what it is handed has been redacted. */
export class RedactingExporter {
  /**
   * @param {any} exporter
   * @param {Redactor} [redactor]
   */
  constructor(exporter, redactor = DEFAULT) {
    this.exporter = exporter;
    this.redactor = redactor;
    /** Spans that could not be looked at and were not exported. */
    this.refused = 0;
  }

  /**
   * Redact and hand on; the result is the other exporter's.
   * @param {readonly any[]} spans
   * @param {(result: any) => void} done
   */
  export(spans, done) {
    const kept = [];
    for (const span of spans) {
      try {
        kept.push(redacted(span, this.redactor));
      } catch {
        this.refused += 1;
      }
    }
    this.exporter.export(kept, done);
  }

  /** As the other exporter. */
  shutdown() {
    return this.exporter.shutdown();
  }

  /** As the other exporter. */
  forceFlush() {
    return this.exporter.forceFlush?.() ?? Promise.resolve();
  }
}

/**
 * A finished span without what must not leave: names, attributes, events, links, status.
 * @param {any} span
 * @param {Redactor} redactor
 */
function redacted(span, redactor) {
  const attributes = (/** @type {any} */ of) => redactAttributes(of.attributes ?? {}, redactor);
  const { status } = span;
  return view(span, {
    name: redact(span.name, redactor),
    attributes: attributes(span),
    events: span.events.map((/** @type {any} */ one) =>
      view(one, { name: redact(one.name, redactor), attributes: attributes(one) }),
    ),
    links: span.links.map((/** @type {any} */ one) => view(one, { attributes: attributes(one) })),
    status: status?.message
      ? { ...status, message: redact(status.message, redactor) }
      : status,
  });
}

/**
 * Something of OpenTelemetry's with a few of its properties replaced.
 * @param {any} inner
 * @param {Record<string, any>} replaced
 */
function view(inner, replaced) {
  return new Proxy(inner, {
    get(target, name) {
      if (typeof name === "string" && Object.hasOwn(replaced, name)) return replaced[name];
      const found = target[name];
      return typeof found === "function" ? found.bind(target) : found;
    },
    getOwnPropertyDescriptor(target, name) {
      const found = Reflect.getOwnPropertyDescriptor(target, name);
      if (found === undefined || typeof name !== "string" || !Object.hasOwn(replaced, name)) {
        return found;
      }
      return { configurable: true, enumerable: found.enumerable, value: replaced[name] };
    },
  });
}

/** @returns {Span | undefined} */
function activeSpan() {
  if (api === undefined) {
    try {
      api = createRequire(import.meta.url)("@opentelemetry/api");
    } catch {
      api = null; // the agent has none
    }
  }
  return api?.trace.getActiveSpan();
}
