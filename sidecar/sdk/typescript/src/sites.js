/**
 * Where in the agent's own files a crossing is made.
 *
 * **Rules**
 * 1. Own files are those below the agent's roots that are no installed packages and none of ours.
 * 2. A site names module and function, never a line; the module by the file's place below its root.
 */
import { realpathSync } from "node:fs";
import { resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";

/** @typedef {{ module: string, qualname: string }} Site */

const OURS = resolve(fileURLToPath(import.meta.url), "..") + sep;
const FRAMES_MAX = 100;
/** @type {Map<string, string>} */
const paths = new Map();

export class Sites {
  /** @param {readonly string[]} roots */
  constructor(roots) {
    this.roots = roots.map((root) => realpathSync(root) + sep);
    /** @type {Map<string, string | null>} */
    this.modules = new Map();
  }

  /** The first own place from here outwards, also beyond awaits; null where there is none. */
  first() {
    return this.among(frames(FRAMES_MAX));
  }

  /** The place that called whoever calls this, where it is an own file's; null elsewhere. */
  caller() {
    for (const frame of frames(8)) {
      const file = placeOf(frame);
      if (file === null || !file.startsWith(OURS)) return this.site(frame, file);
    }
    return null;
  }

  /** @param {NodeJS.CallSite[]} found */
  among(found) {
    for (const frame of found) {
      const site = this.site(frame, placeOf(frame));
      if (site !== null) return site;
    }
    return null;
  }

  /**
   * @param {NodeJS.CallSite} frame
   * @param {string | null} file
   * @returns {Site | null}
   */
  site(frame, file) {
    const module = file === null ? null : this.module(file);
    if (module === null) return null;
    const name = frame.getFunctionName() ?? "";
    const type = name && frame.getMethodName() ? (frame.getTypeName() ?? "") : "";
    const owned = type && type !== "Object" && !name.includes(".") && !frame.isToplevel();
    return { module, qualname: name === "" ? "<module>" : owned ? `${type}.${name}` : name };
  }

  /** @param {string} file */
  module(file) {
    let found = this.modules.get(file);
    if (found === undefined) {
      found = this.named(file);
      this.modules.set(file, found);
    }
    return found;
  }

  /** @param {string} file */
  named(file) {
    const root = this.roots.find((one) => file.startsWith(one));
    if (root === undefined || file.startsWith(OURS)) return null;
    const parts = file.slice(root.length).split(sep);
    if (parts.includes("node_modules")) return null;
    return parts.join(".").replace(/\.[cm]?[jt]sx?$/, "");
  }
}

/**
 * @param {number} most
 * @returns {NodeJS.CallSite[]}
 */
function frames(most) {
  const { prepareStackTrace, stackTraceLimit } = Error;
  Error.stackTraceLimit = most;
  Error.prepareStackTrace = (_, found) => found;
  try {
    const found = /** @type {any} */ (new Error().stack);
    return Array.isArray(found) ? found : [];
  } finally {
    Error.prepareStackTrace = prepareStackTrace;
    Error.stackTraceLimit = stackTraceLimit;
  }
}

/** @param {NodeJS.CallSite} frame */
function placeOf(frame) {
  const name = frame.getFileName() ?? null;
  if (name === null || name.startsWith("node:")) return null;
  if (!name.startsWith("file:")) return name;
  const known = paths.get(name) ?? fileURLToPath(name);
  paths.set(name, known);
  return known;
}
