/**
 * Python's regular expressions made JavaScript's, so that both redactors know the same forms.
 *
 * **Rules**
 * 1. `\w` and `\s` are Python's: letters and digits of every script, and its white space. `.`, `^`,
 *    `$` know one line end, `\n`. Where case does not matter, both forms of a dotless i count.
 * 2. Only what the patterns of `forms.json` use is known; anything else is a fault of ours.
 */

const WORD = "\\p{L}\\p{N}_";
export const SPACE =
  "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const SYNTAX = new Set("^$\\.*+?()[]{}|/");
const DOTLESS = "\\u0130\\u0131";

/**
 * @param {string} source a pattern of Python's
 * @param {{ dotall?: boolean, multiline?: boolean, ignoreCase?: boolean, flags?: string }} [options]
 * @returns {RegExp}
 */
export function fromPython(source, { dotall, multiline, ignoreCase, flags = "" } = {}) {
  const inline = source.startsWith("(?i)");
  const folds = Boolean(ignoreCase) || inline;
  const text = inline ? source.slice(4) : source;
  let found = "";
  let within = false;
  for (let place = 0; place < text.length; place += 1) {
    const one = text[place];
    if (one === "\\") {
      place += 1;
      found += escape(text[place], within);
    } else if (within) {
      if (one === "]") within = false;
      if (folds && text.startsWith("a-z", place)) {
        found += `a-z${DOTLESS}`;
        place += 2;
      } else found += one;
    } else if (one === "[") {
      within = true;
      found += one;
    } else if (text.startsWith("(?P<", place)) {
      const end = text.indexOf(">", place) + 1; // a group's name is no text to be changed
      found += `(?<${text.slice(place + 4, end)}`;
      place = end - 1;
    } else if (one === "." && dotall) found += "[^]";
    else if (one === ".") found += "[^\\n]";
    else if (one === "^") found += multiline ? "(?<![^\\n])" : "(?<![^])";
    else if (one === "$" && multiline) found += "(?![^\\n])";
    else if (folds && (one === "i" || one === "I")) found += `[i${DOTLESS}]`;
    else found += one;
  }
  return new RegExp(found, `u${folds ? "i" : ""}${flags}`);
}

/**
 * @param {string} letter
 * @param {boolean} within a class
 */
function escape(letter, within) {
  if (letter === "w") return within ? WORD : `[${WORD}]`;
  if (letter === "s") return within ? SPACE : `[${SPACE}]`;
  if (letter === "S" && !within) return `[^${SPACE}]`;
  if (letter === "Z") return "(?![^])";
  if (letter === "n" || letter === "t" || SYNTAX.has(letter)) return `\\${letter}`;
  if (/[a-zA-Z0-9]/.test(letter)) throw new Error(`\\${letter} is not known here`);
  return letter;
}
