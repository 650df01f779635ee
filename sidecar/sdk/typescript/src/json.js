/**
 * JSON texts read and written as Python's `json` does, so that a text is edited the same way in both.
 *
 * **Rules**
 * 1. Objects are Maps. Numbers keep how they were written, and are written as Python writes them.
 * 2. NaN and infinities are read and written, keys may stand twice (`repeated`), a lone half of a
 *    surrogate pair is a character; nothing else beyond RFC 8259 is.
 */

const DEPTH_MAX = 900;
const DIGITS_MAX = 4300; // what Python's int() reads
const NUMBER = /(-?(?:0|[1-9][0-9]*))(\.[0-9]+)?([eE][-+]?[0-9]+)?/y;
const SPACE = /[ \t\n\r]*/y;
const CHUNK = /[^"\\\u0000-\u001f]*/y;
const ESCAPES = new Map(Object.entries({ '"': '"', "\\": "\\", "/": "/", b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" }));
const WORDS = /** @type {[string, any][]} */ ([
  ["null", null],
  ["true", true],
  ["false", false],
]);

/** A number of a JSON text. */
export class Numeral {
  /**
   * @param {number | bigint} value a bigint where it was written as an integer
   */
  constructor(value) {
    this.value = value;
  }

  /** As Python writes it. */
  toString() {
    return typeof this.value === "bigint" ? String(this.value) : float(this.value);
  }
}

/**
 * The value of a JSON text, and whether a key stands twice in it. Throws SyntaxError.
 * @param {string} text
 * @returns {{ value: any, repeated: boolean }}
 */
export function read(text) {
  const reader = new Reader(text);
  const value = reader.whole();
  return { value, repeated: reader.repeated };
}

/**
 * A value as the text Python's `json.dumps(…, ensure_ascii=False, separators=(",", ":"))` gives.
 * @param {any} value
 * @returns {string}
 */
export function written(value) {
  if (typeof value === "string") return quoted(value);
  if (Array.isArray(value)) return `[${value.map(written).join(",")}]`;
  if (value instanceof Map) {
    return `{${Array.from(value, ([key, item]) => `${quoted(key)}:${written(item)}`).join(",")}}`;
  }
  return String(value);
}

/**
 * A float as Python's `repr` has it.
 * @param {number} value
 */
export function float(value) {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "Infinity" : "-Infinity";
  const [mantissa, power] = value.toExponential().split("e");
  const sign = value < 0 || Object.is(value, -0) ? "-" : "";
  const digits = mantissa.replace("-", "").replace(".", "");
  const exponent = Number(power);
  if (exponent < -4 || exponent >= 16) {
    const rest = digits.length > 1 ? `.${digits.slice(1)}` : "";
    const size = String(Math.abs(exponent)).padStart(2, "0");
    return `${sign}${digits[0]}${rest}e${exponent < 0 ? "-" : "+"}${size}`;
  }
  if (exponent < 0) return `${sign}0.${"0".repeat(-exponent - 1)}${digits}`;
  const whole = digits.slice(0, exponent + 1).padEnd(exponent + 1, "0");
  return `${sign}${whole}.${digits.slice(exponent + 1) || "0"}`;
}

/** @param {string} text */
function quoted(text) {
  // JSON.stringify would write a lone surrogate as an escape.
  return JSON.stringify(text).replace(/\\(?:u(d[89a-f][0-9a-f]{2})|[^])/g, (whole, half) =>
    half === undefined ? whole : String.fromCharCode(parseInt(half, 16)),
  );
}

class Reader {
  /** @param {string} text */
  constructor(text) {
    this.text = text;
    this.place = 0;
    this.repeated = false;
  }

  whole() {
    this.space();
    const value = this.value(0);
    this.space();
    if (this.place < this.text.length) throw new SyntaxError("more than one value");
    return value;
  }

  /**
   * @param {number} depth
   * @returns {any}
   */
  value(depth) {
    if (depth > DEPTH_MAX) throw new SyntaxError("nested too deep");
    const first = this.text[this.place];
    if (first === '"') return this.string();
    if (first === "{") return this.object(depth);
    if (first === "[") return this.array(depth);
    for (const [word, value] of WORDS) if (this.skip(word)) return value;
    if (this.skip("NaN")) return new Numeral(NaN);
    if (this.skip("Infinity")) return new Numeral(Infinity);
    if (this.skip("-Infinity")) return new Numeral(-Infinity);
    return this.number();
  }

  number() {
    const [whole, integer, fraction, exponent] = this.match(NUMBER) ?? [];
    if (!whole) throw new SyntaxError("no value");
    if (fraction !== undefined || exponent !== undefined) return new Numeral(Number(whole));
    if (integer.length > DIGITS_MAX) throw new SyntaxError("a number of too many digits");
    return new Numeral(BigInt(integer));
  }

  /**
   * @param {number} depth
   * @returns {Map<string, any>}
   */
  object(depth) {
    const found = new Map();
    this.place += 1;
    this.space();
    if (this.skip("}")) return found;
    for (;;) {
      if (this.text[this.place] !== '"') throw new SyntaxError("no key");
      const key = this.string();
      this.space();
      if (!this.skip(":")) throw new SyntaxError("no colon");
      this.space();
      if (found.has(key)) this.repeated = true;
      found.set(key, this.value(depth + 1));
      this.space();
      if (this.skip("}")) return found;
      if (!this.skip(",")) throw new SyntaxError("no comma");
      this.space();
    }
  }

  /**
   * @param {number} depth
   * @returns {any[]}
   */
  array(depth) {
    /** @type {any[]} */
    const found = [];
    this.place += 1;
    this.space();
    if (this.skip("]")) return found;
    for (;;) {
      found.push(this.value(depth + 1));
      this.space();
      if (this.skip("]")) return found;
      if (!this.skip(",")) throw new SyntaxError("no comma");
      this.space();
    }
  }

  string() {
    this.place += 1;
    let found = "";
    for (;;) {
      found += this.match(CHUNK)?.[0] ?? "";
      if (this.skip('"')) return found;
      if (!this.skip("\\")) throw new SyntaxError("a text without an end");
      const next = this.text[this.place];
      this.place += 1;
      if (next === "u") found += this.unit();
      else {
        const plain = ESCAPES.get(next);
        if (plain === undefined) throw new SyntaxError("no escape");
        found += plain;
      }
    }
  }

  unit() {
    const digits = this.text.slice(this.place, this.place + 4);
    if (!/^[0-9a-fA-F]{4}$/.test(digits)) throw new SyntaxError("no escape");
    this.place += 4;
    return String.fromCharCode(parseInt(digits, 16));
  }

  space() {
    this.match(SPACE);
  }

  /** @param {string} word */
  skip(word) {
    if (!this.text.startsWith(word, this.place)) return false;
    this.place += word.length;
    return true;
  }

  /** @param {RegExp} pattern */
  match(pattern) {
    pattern.lastIndex = this.place;
    const found = pattern.exec(this.text);
    if (found !== null) this.place += found[0].length;
    return found;
  }
}
