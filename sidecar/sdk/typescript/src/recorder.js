/**
 * What an agent uses to record itself (docs/specs/sdk.md).
 *
 * Clients take `fetch` when they are made, often long before a recording begins: so a stand-in is
 * there from this import on. Outside of a recording it is the one that was there.
 */
import { install } from "./seams/fetch.js";

install();

export { record, Recording } from "./record.js";
export { tool } from "./seams/tool.js";
