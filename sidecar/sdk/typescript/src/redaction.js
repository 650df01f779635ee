/**
 * Redaction in a light process: by place, by key and by form; the twin of
 * `sidecar/tape/redaction.py`, whose patterns are in `forms.js`.
 *
 * **Rules**
 * 1. The same value under the same rules and key gives what the Python redactor gives, and the two
 *    have one identity: their tapes can be compared.
 * 2. Redacting twice changes nothing. Leaves are edited: the shape of a value and its keys stay.
 */
import { createHmac } from "node:crypto";
import { canonical, NotCanonical, sha256 } from "./canonical.js";
import { DETECTORS, ENDS, NAMED, SECRET_KEYS } from "./forms.js";
import { float, Numeral, read, written } from "./json.js";
import { Paths } from "./paths.js";
import { fromPython, SPACE } from "./patterns.js";
import { decoded, DEPTH_MAX, encoded, marked } from "./value.js";

/** @typedef {"drop" | "mask" | "hash" | "tokenise"} Mode */
/**
 * What becomes of values at a `path`, or under a `key` (`-` and case do not matter).
 * @typedef {{ mode: Mode, class?: string, path?: string, key?: string }} Rule
 */
/** @typedef {import("./paths.js").States} States */
/** @typedef {Set<string> | null} Seen */

export const UNREADABLE = "[unreadable]";
export const DROPPED = "[dropped]";
const MODES = ["drop", "mask", "hash", "tokenise"];
const KEYED = ["hash", "tokenise"];
const KEY_BYTES_MIN = 32;
const CLASS = /^[a-z][a-z_]{0,31}$/;
const OURS = /^(?:tok:[a-z_]{1,32}:[0-9a-f]{12}|hmac:[a-z_]{1,32}:[0-9a-f]{64}|\[[a-z_]{1,32}\])$/;
const PASSES_MAX = 8;
const LEAK_CHARACTERS_MIN = 8;
const STARTS = ["{", "[", '"'];
const SECRETS = new Set(SECRET_KEYS);
const SHORT = 256;
const MAYBE =
  /[@="]|eyJ|-----|:\/\/|[bB][eE][aA][rR]|[spr]k[-_]|AKIA|gh[pousr]_|xox|[0-9](?:[ -]?[0-9]){12}/;
const TAILS =
  /(?:pass(?:word|wd|phrase)|pwd|secret|token|cookie|key|credentials?|otp|cvv|cvc|pin|authorization)(?:["']?[ \t]{0,8}[:=]|[ \t])/;
const THIRTEEN = /[0-9](?:[ -]?[0-9]){12}/;
const WORD_BEFORE = /[A-Za-z0-9_-]{2,64}$/;
const LEADING = new RegExp(`^[${SPACE}]*`);
const [ASSIGNED, HEADS, VALUES, LINE] = [
  fromPython(NAMED[0], { flags: "y" }),
  fromPython(NAMED[1], { multiline: true, ignoreCase: true, flags: "g" }),
  fromPython(NAMED[2], { flags: "y" }),
  fromPython(NAMED[3], { flags: "y" }),
];
const FORMS = DETECTORS.map((one) => ({
  ...one,
  pattern: fromPython(one.pattern, { dotall: one.name === "private_key", flags: "g" }),
}));

/** A redactor of rules, and of the forms this program knows. */
export class Redactor {
  /**
   * @param {readonly Rule[]} [rules]
   * @param {object} [options]
   * @param {Mode} [options.forms] the mode for what is found by form
   * @param {Uint8Array} [options.key] 32 bytes, where any mode is `hash` or `tokenise`
   * @param {string} [options.keyId]
   */
  constructor(rules = [], { forms = "mask", key, keyId } = {}) {
    const modes = [forms, ...rules.map((rule) => rule.mode)];
    const strange = modes.find((mode) => !MODES.includes(mode));
    if (strange !== undefined) {
      throw new TypeError(`${String(strange)} is no mode: ${MODES.join(", ")}`);
    }
    if (modes.some((mode) => KEYED.includes(mode)) && !(key instanceof Uint8Array)) {
      throw new TypeError("hash and tokenise need a key of 32 bytes");
    }
    if (key !== undefined && key.length < KEY_BYTES_MIN) {
      throw new TypeError(`a key has 32 bytes, not ${key.length}: a short one can be guessed`);
    }
    for (const rule of rules) {
      if ((rule.path === undefined) === (rule.key === undefined)) {
        throw new TypeError("a rule names a path or a key");
      }
      if (!CLASS.test(rule.class ?? "secret")) {
        throw new TypeError(`${rule.class}: a class is a lower-case word`);
      }
    }
    this.key = key ?? new Uint8Array();
    this.forms = forms;
    this.byPath = rules.filter((rule) => rule.path !== undefined);
    this.paths = new Paths(this.byPath.map((rule) => String(rule.path)));
    /** @type {Map<string, Rule>} */
    this.byKey = new Map(SECRET_KEYS.map((name) => [name, { mode: forms, key: name }]));
    for (const rule of rules) if (rule.key !== undefined) this.byKey.set(normal(rule.key), rule);
    const known = [...NAMED, ...DETECTORS.map((one) => one.pattern), ...ENDS];
    const told = canonical([forms, rules.map(ruleTold), SECRET_KEYS, known]);
    /** Id, version and key id; two that differ make tapes incomparable. */
    this.identity = new Map([
      ["id", "agenttwin-light"],
      ["version", `2:${sha256(told).slice(0, 12)}`],
      ...(keyId === undefined ? [] : [/** @type {[string, string]} */ (["key_id", keyId])]),
    ]);
  }

  /**
   * An encoded value redacted. What was replaced by place or key is added to `seen`.
   * @param {any} value
   * @param {Seen} [seen]
   */
  value(value, seen = null) {
    return this.redacted(value, this.paths.start, 0, seen);
  }

  /**
   * A text redacted, by its leaves where it is JSON.
   * @param {string} text
   * @param {Seen} [seen]
   */
  text(text, seen = null) {
    return this.textAt(text, 0, seen);
  }

  /**
   * @param {any} value
   * @param {States} states
   * @param {number} depth
   * @param {Seen} seen
   * @returns {any}
   */
  redacted(value, states, depth, seen) {
    if (states.length > 0) {
      const [here] = this.paths.ends(states);
      if (here !== undefined) return this.replaced(this.ruleAt(here), value, seen);
    }
    if (depth > DEPTH_MAX) return UNREADABLE;
    if (typeof value === "string") return this.textAt(value, depth, seen);
    if (value instanceof Map) {
      const mark = marked(value);
      if (mark !== null) return mark === "$b64" ? this.bytes(value, depth, seen) : value;
      return this.object(value, (key, item) => this.member(key, item, states, depth, seen));
    }
    if (!Array.isArray(value)) return value;
    return value.map((item, place) =>
      this.redacted(item, this.paths.step(states, place), depth + 1, seen),
    );
  }

  /** @param {number} number */
  ruleAt(number) {
    const text = this.paths.texts[number];
    return /** @type {Rule} */ (this.byPath.find((rule) => rule.path === text));
  }

  /**
   * @param {Map<string, any>} value
   * @param {(key: string, item: any) => any} member
   */
  object(value, member) {
    const names = new Map(Array.from(value.keys(), (key) => [key, this.formsIn(key)]));
    const keys = [...value.keys()];
    if (keys.some((key) => names.get(key) !== key)) keys.sort(byCodePoint);
    const found = new Map();
    for (const key of keys) {
      const plain = String(names.get(key));
      let [name, number] = [plain, 2];
      while (found.has(name) || (name !== key && value.has(name))) {
        name = `${plain}#${number}`;
        number += 1;
      }
      found.set(name, member(key, value.get(key)));
    }
    return found;
  }

  /**
   * @param {string} key
   * @param {any} item
   * @param {States} states
   * @param {number} depth
   * @param {Seen} seen
   */
  member(key, item, states, depth, seen) {
    const below = this.paths.step(states, key);
    const rule = this.byKey.get(normal(key));
    if (rule !== undefined && this.paths.ends(below).length === 0) {
      return this.replaced(rule, item, seen);
    }
    return this.redacted(item, below, depth + 1, seen);
  }

  /**
   * @param {Rule} rule
   * @param {any} value
   * @param {Seen} seen
   * @returns {any}
   */
  replaced(rule, value, seen) {
    if (value === null || value === "" || typeof value === "boolean") return value;
    if (value instanceof Map && marked(value) === null) {
      return this.object(value, (_, item) => this.replaced(rule, item, seen));
    }
    if (Array.isArray(value)) return value.map((item) => this.replaced(rule, item, seen));
    if (typeof value === "string") {
      if (value === DROPPED || OURS.test(value)) return value;
      if (seen !== null && [...value].length >= LEAK_CHARACTERS_MIN) seen.add(value);
    }
    return this.instead(rule.mode, rule.class ?? "secret", value);
  }

  /**
   * @param {Mode} mode
   * @param {string} kind
   * @param {any} value
   */
  instead(mode, kind, value) {
    if (mode === "drop") return DROPPED;
    if (mode === "mask") return `[${kind}]`;
    const told = `${kind}|${typeof value === "string" ? value : spelt(value)}`;
    const found = createHmac("sha256", this.key).update(told).digest("hex");
    return mode === "hash" ? `hmac:${kind}:${found}` : `tok:${kind}:${found.slice(0, 12)}`;
  }

  /**
   * Bytes that are a text are redacted as that text.
   * @param {Map<string, any>} value
   * @param {number} depth
   * @param {Seen} seen
   */
  bytes(value, depth, seen) {
    let text;
    try {
      text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(decoded(value));
    } catch {
      return value;
    }
    const after = this.textAt(text, depth, seen);
    return after === text ? value : encoded(Buffer.from(after));
  }

  /**
   * @param {string} text
   * @param {number} depth
   * @param {Seen} seen
   */
  textAt(text, depth, seen) {
    const start = LEADING.exec(text)?.[0].length ?? 0;
    if (!STARTS.includes(text[start])) return this.formsIn(text);
    let parsed;
    try {
      parsed = read(text);
    } catch {
      return this.formsIn(text);
    }
    const after = this.redacted(parsed.value, [], depth + 1, seen);
    return !parsed.repeated && same(after, parsed.value) ? text : written(after);
  }

  /** @param {string} text */
  formsIn(text) {
    if (text.length <= SHORT && !MAYBE.test(text) && !mayName(text)) return text;
    let before = text;
    for (let pass = 0; pass < PASSES_MAX; pass += 1) {
      let after = this.assignments(before);
      if (mayName(after)) after = this.named(after);
      const folded = after.toLowerCase();
      for (const form of FORMS) {
        const needles = form.needles.length > 0 ? form.needles : (THIRTEEN.exec(after) ?? []);
        if (!needles.some((needle) => folded.includes(needle))) continue;
        after = after.replace(form.pattern, (whole, ...groups) => {
          const datum = form.group === 0 ? whole : groups[form.group - 1];
          if (form.name === "card" && !isCard(datum)) return whole;
          const prefix = whole.slice(0, whole.length - datum.length);
          return prefix + this.instead(this.forms, form.name, datum);
        });
      }
      if (after === before) return before;
      if (this.forms === "drop") return DROPPED;
      before = after;
    }
    return UNREADABLE;
  }

  /**
   * Values of `key=value` replaced: in a query, a form, a connection string.
   * @param {string} text
   */
  assignments(text) {
    let [found, place, equals] = ["", 0, text.indexOf("=")];
    while (equals >= 0) {
      const before = text.slice(Math.max(place, equals - 64), equals);
      const word = /[A-Za-z0-9]$/.test(before) ? WORD_BEFORE.exec(before) : null;
      const value = word && namesSecret(word[0]) ? at(ASSIGNED, text, equals + 1) : null;
      if (value !== null) {
        found += text.slice(place, value.index) + this.instead(this.forms, "secret", value[0]);
        place = value.index + value[0].length;
      }
      equals = text.indexOf("=", Math.max(place, equals + 1));
    }
    return found + text.slice(place);
  }

  /**
   * Values replaced that stand in quotes, behind an option, or alone in a line with a name that is
   * a secret's.
   * @param {string} text
   */
  named(text) {
    let [found, place] = ["", 0];
    let head = at(HEADS, text, 0);
    while (head !== null) {
      let start = head.index + head[0].length;
      const [kind, name] = /** @type {[string, string]} */ (
        Object.entries(head.groups ?? {}).find(([, word]) => word !== undefined)
      );
      const value = namesSecret(name) ? at(kind === "line" ? LINE : VALUES, text, start) : null;
      if (value !== null) {
        const datum = String(value[3] ?? value[2] ?? value[1]);
        const end = value.index + value[0].length;
        found += text.slice(place, end - datum.length) + this.instead(this.forms, "secret", datum);
        place = start = end;
      }
      head = at(HEADS, text, start);
    }
    return found + text.slice(place);
  }
}

/**
 * Whether a word ends in a secret's key: `my_api_key`, `--X-Token`, `dbPassword`.
 * @param {string} word
 */
export function namesSecret(word) {
  const folded = normal(word);
  if (ENDS.some((end) => folded.endsWith(end))) return true;
  const parts = normal(word.replace(/(?<=[a-z0-9])(?=[A-Z])/g, "_")).split("_");
  return parts.some((_, start) => SECRETS.has(parts.slice(start).join("_")));
}

/**
 * @param {RegExp} pattern
 * @param {string} text
 * @param {number} place
 */
function at(pattern, text, place) {
  pattern.lastIndex = place;
  return pattern.exec(text);
}

/** @param {string} key */
function normal(key) {
  return key.toLowerCase().replaceAll("-", "_");
}

/**
 * Whether a secret's name may stand in a text, with a value behind it.
 * @param {string} text
 */
function mayName(text) {
  return /[:=-]/.test(text) && TAILS.test(text.toLowerCase());
}

/** @param {string} text */
function isCard(text) {
  const digits = Array.from(text.replace(/[^0-9]/g, ""), Number).reverse();
  const sum = digits.reduce((total, digit, place) => {
    const doubled = place % 2 === 1 ? 2 * digit : digit;
    return total + (doubled > 9 ? doubled - 9 : doubled);
  }, 0);
  return sum % 10 === 0;
}

/** @param {Rule} rule */
function ruleTold(rule) {
  const { mode, class: kind, path, key } = rule;
  return encoded({ mode, class: kind === "secret" ? undefined : kind, path, key });
}

/** @param {any} value */
function spelt(value) {
  if (!(value instanceof Numeral)) {
    try {
      return canonical(value);
    } catch (error) {
      if (error instanceof NotCanonical) return String(value);
      throw error;
    }
  }
  const number = value.value;
  if (typeof number === "bigint") return String(number);
  return Number.isFinite(number) ? canonical(number) : float(number).toLowerCase().replace("inity", "");
}

/**
 * @param {any} one
 * @param {any} other
 * @returns {boolean}
 */
function same(one, other) {
  if (one === other) return true;
  if (Array.isArray(one) && Array.isArray(other)) {
    return one.length === other.length && one.every((item, place) => same(item, other[place]));
  }
  if (!(one instanceof Map) || !(other instanceof Map) || one.size !== other.size) return false;
  return Array.from(one).every(([key, item]) => other.has(key) && same(item, other.get(key)));
}

/**
 * @param {string} one
 * @param {string} other
 */
function byCodePoint(one, other) {
  const [a, b] = [[...one], [...other]];
  for (let place = 0; place < Math.min(a.length, b.length); place += 1) {
    const gap = Number(a[place].codePointAt(0)) - Number(b[place].codePointAt(0));
    if (gap !== 0) return gap;
  }
  return a.length - b.length;
}
