/**
 * One HTTP exchange as an event: what was asked and what was answered; the twin of
 * `sidecar/capture/exchange.py` and `bodies.py`.
 *
 * **Rules**
 * 1. A POST of a model's request to a path that model endpoints have is an `llm_call` at the seam
 *    PROVIDER, any other exchange a call at the seam HTTP.
 * 2. No secret is ever put in a payload, whatever redaction follows: headers and query values whose
 *    names say credential or cookie are replaced here, user and password in a URL left out.
 */
import { address, isWellFormed } from "./canonical.js";
import * as forms from "./forms.js";
import { Numeral, read } from "./json.js";
import { fromPython } from "./patterns.js";

/** @typedef {readonly (readonly [string, string])[]} Headers */
/** @typedef {{ method: string, url: string, headers: Headers, body: Uint8Array }} Asked */
/** @typedef {{ kind: "llm_call" | "tool_call", seam: "provider" | "http", name: string, given: any, attributes: Record<string, any> }} Call */

const HIDDEN = "[secret]";
const DEPTH_MAX = 90;
const IN_PATH = /\/(?:models|deployments)\/([^/:]{1,200})/;
const SECRET = fromPython(forms.HEADER_SECRET);
const PAGING = fromPython(forms.HEADER_PAGING);
const PLUMBING = new Set(forms.PLUMBING);

/**
 * A request as an event's input. Throws where its URL is none.
 * @param {Asked} request
 * @returns {Call}
 */
export function callOf(request) {
  const url = new URL(request.url);
  const method = request.method.toUpperCase();
  const headers = byName(request.headers);
  const body = asked(request.body, String(headers["content-type"] ?? ""));
  const bare = `${url.protocol}//${url.host}${url.pathname}`;
  const model = modelOf(method, url.pathname, body);
  if (model !== null) {
    return {
      kind: "llm_call",
      seam: "provider",
      name: model,
      given: "model" in body ? body : { ...body, model },
      attributes: { request: { method, url: bare } },
    };
  }
  const query = queryOf(url.searchParams);
  return {
    kind: "tool_call",
    seam: "http",
    name: `${method} ${url.hostname}${url.pathname}`,
    given: { method, url: bare, query, headers: askedHeaders(headers), body },
    attributes: {},
  };
}

/**
 * A request that could not be taken apart: its method, and a digest of its bytes for a body.
 * @param {Asked} request
 * @returns {Call}
 */
export function unread(request) {
  const method = request.method.toUpperCase();
  const given = { method, body: address(request.body) };
  return { kind: "tool_call", seam: "http", name: method, given, attributes: {} };
}

/**
 * An answer as an event's output, and what goes to its attributes.
 * @param {"provider" | "http"} seam
 * @param {{ status: number, reason: string, headers: Headers, body: any, hint: Record<string, any> }} reply
 */
export function outOf(seam, { status, reason, headers: pairs, body, hint }) {
  const { headers, cookies } = answeredHeaders(pairs);
  const wire = {
    ...(cookies.length > 0 ? { cookies } : {}),
    ...hint,
    ...(reason ? { reason } : {}),
    ...(seam === "provider" ? { status, headers } : {}),
  };
  const output = seam === "provider" ? body : { status, headers, body };
  return { output, attributes: Object.keys(wire).length > 0 ? { http: wire } : {} };
}

/**
 * Tokens a model's answer says were used, in the words of our own usage records.
 * @param {any} body
 * @returns {Record<string, number>}
 */
export function usageOf(body) {
  const said = isObject(body) ? (body.usage ?? body.usageMetadata) : null;
  if (!isObject(said)) return {};
  const details = Object.assign({}, ...Object.values(said).filter(isObject), said);
  const cached = ["cache_read_input_tokens", "cached_tokens", "cachedContentTokenCount"];
  const found = {
    input: first(said, ["input_tokens", "prompt_tokens", "promptTokenCount"]),
    output: first(said, ["output_tokens", "completion_tokens", "candidatesTokenCount"]),
    cache_read: first(details, cached),
    cache_write: first(said, ["cache_creation_input_tokens"]),
    reasoning: first(details, ["reasoning_tokens", "thoughtsTokenCount"]),
  };
  return /** @type {Record<string, number>} */ (
    Object.fromEntries(Object.entries(found).filter(([, count]) => count !== null))
  );
}

/**
 * Headers by lower-case name; those that stand several times as a list.
 * @param {Headers} headers
 * @returns {Record<string, any>}
 */
export function byName(headers) {
  /** @type {Record<string, any>} */
  const found = Object.create(null);
  for (const [name, value] of headers) {
    const key = name.toLowerCase();
    if (!(key in found)) found[key] = value;
    else found[key] = [...(Array.isArray(found[key]) ? found[key] : [found[key]]), value];
  }
  return found;
}

/**
 * An answer's body as payload.
 * @param {Uint8Array} data
 */
export function answered(data) {
  return data.length === 0 ? null : jsonOf(data, plain(data));
}

/**
 * A JSON text as objects without a prototype. Throws where it is none that a tape holds.
 * @param {string} text
 */
export function parsed(text) {
  const { value, repeated } = read(text);
  if (repeated) throw new SyntaxError("a key stands twice");
  return opened(value, 0);
}

/**
 * @param {Uint8Array} data
 * @param {string} contentType
 * @returns {any}
 */
function asked(data, contentType) {
  if (data.length === 0) return null;
  const text = plain(data);
  if (typeof text === "string" && "{[".includes(text.trimStart()[0] ?? " ")) return jsonOf(data, text);
  const [media, ...parameters] = contentType.split(";").map((one) => one.trim());
  const boundary = parameters.find((one) => /^boundary=/i.test(one))?.slice(9).replace(/^"|"$/g, "");
  if (media.toLowerCase() === "multipart/form-data" && boundary) {
    return parts(Buffer.from(data), boundary) ?? text;
  }
  if (media.toLowerCase() === "application/x-www-form-urlencoded" && typeof text === "string") {
    return { form: queryOf(new URLSearchParams(text), false) };
  }
  return text;
}

/**
 * @param {Buffer} data
 * @param {string} boundary
 */
function parts(data, boundary) {
  const pieces = data.toString("latin1").split(`--${boundary}`);
  if (pieces.length < 3 || pieces.length > forms.FIELDS_MAX || pieces.at(-1)?.trim() !== "--") return null;
  const found = [];
  for (const piece of pieces.slice(1, -1)) {
    const whole = piece.replace(/^\r\n/, "");
    const gap = whole.indexOf("\r\n\r\n");
    if (gap < 0) return null;
    const head = Buffer.from(whole.slice(0, gap), "latin1").toString();
    const name = /^content-disposition:.*?[; ]name="?([^";\r\n]*)/im.exec(head)?.[1] ?? "";
    const filename = /[; ]filename="?([^";\r\n]*)/i.exec(head)?.[1];
    const type = /^content-type:\s*(.*?)\s*$/im.exec(head)?.[1];
    const content = Buffer.from(whole.slice(gap + 4).replace(/\r\n$/, ""), "latin1");
    const value = asked(content, type ?? "");
    // A field's value stands under its name, so that a secret's is known as one.
    const named = name ? { field: { [name]: value } } : { value };
    found.push({ ...(filename ? { filename } : {}), ...(type ? { type } : {}), ...named });
  }
  return { multipart: found };
}

/**
 * @param {Uint8Array} data
 * @param {string | Uint8Array} otherwise
 */
function jsonOf(data, otherwise) {
  if (typeof otherwise !== "string" || !/^[ \t\n\r\f\v]*[[{]/.test(otherwise)) return otherwise;
  try {
    return parsed(Buffer.from(data).toString());
  } catch {
    return otherwise;
  }
}

/**
 * @param {any} value
 * @param {number} depth
 * @returns {any}
 */
function opened(value, depth) {
  if (depth > DEPTH_MAX) throw new SyntaxError("nested deeper than a tape holds");
  if (value instanceof Numeral) {
    if (typeof value.value === "number" && !Number.isFinite(value.value)) {
      throw new SyntaxError("a number that is none");
    }
    return value.value;
  }
  if (typeof value === "string" && !isWellFormed(value)) throw new SyntaxError("a lone surrogate");
  if (Array.isArray(value)) return value.map((item) => opened(item, depth + 1));
  if (!(value instanceof Map)) return value;
  const found = Object.create(null);
  for (const [key, item] of value) found[opened(key, depth)] = opened(item, depth + 1);
  return found;
}

/**
 * @param {Uint8Array} data
 * @returns {string | Uint8Array}
 */
function plain(data) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data);
  } catch {
    return data;
  }
}

/**
 * The model a request asks; null where it asks none.
 * @param {string} method
 * @param {string} path
 * @param {any} body
 * @returns {string | null}
 */
function modelOf(method, path, body) {
  const folded = path.toLowerCase();
  if (method !== "POST" || !isObject(body)) return null;
  if (!forms.MODEL_PATHS.some((end) => folded.endsWith(end))) return null;
  if (!forms.MODEL_TOLD.some((key) => key in body)) return null;
  if (typeof body.model === "string" && body.model) return body.model;
  return IN_PATH.exec(path)?.[1] ?? null;
}

/**
 * @param {URLSearchParams} said
 * @param {boolean} [hides]
 */
function queryOf(said, hides = true) {
  /** @type {Record<string, string[]>} */
  const found = Object.create(null);
  for (const [key, value] of said) {
    found[key] = hides && isSecret(key) ? [HIDDEN] : [...(found[key] ?? []), value];
  }
  return found;
}

/** @param {string} name */
function isSecret(name) {
  const folded = name.toLowerCase();
  return SECRET.test(folded) && !PAGING.test(folded);
}

/** @param {Record<string, any>} headers */
function askedHeaders(headers) {
  /** @type {Record<string, any>} */
  const found = Object.create(null);
  for (const [name, value] of Object.entries(headers)) {
    if (PLUMBING.has(name) || forms.PLUMBING_STARTS.some((start) => name.startsWith(start))) continue;
    if (isSecret(name)) found[name] = HIDDEN;
    else if (!forms.CLIENTS_OWN.some((start) => String(value).startsWith(start))) {
      found[name] = name === "content-type" ? boundless(String(value)) : value;
    }
  }
  return found;
}

/** @param {Headers} headers */
function answeredHeaders(headers) {
  /** @type {[string, string][]} */
  const cookies = [];
  /** @type {[string, string][]} */
  const kept = [];
  for (const [name, value] of headers) {
    if (/^set-cookie2?$/i.test(name)) {
      const end = value.includes(";") ? value.indexOf(";") : value.length;
      cookies.push([value.slice(0, end).split("=")[0].trim(), value.slice(end)]);
    } else kept.push([name, isSecret(name) ? HIDDEN : value]);
  }
  return { headers: byName(kept), cookies };
}

/** @param {string} value */
function boundless(value) {
  if (!value.toLowerCase().startsWith("multipart/")) return value;
  return value
    .split(";")
    .filter((one) => !one.trim().toLowerCase().startsWith("boundary="))
    .join(";");
}

/**
 * @param {any} value
 * @returns {boolean}
 */
function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !ArrayBuffer.isView(value);
}

/**
 * @param {Record<string, any>} said
 * @param {string[]} names
 */
function first(said, names) {
  for (const name of names) {
    const count = said[name];
    const number = typeof count === "bigint" ? Number(count) : count;
    if (Number.isInteger(number) && number >= 0) return number;
  }
  return null;
}
