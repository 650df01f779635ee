/** What an agent in TypeScript or JavaScript uses of AgentTwin Sidecar (docs/specs/sdk.md). */
export { NotCanonical } from "./canonical.js";
export { claim, EVENT } from "./claims.js";
export { RedactingExporter, tell } from "./client.js";
export { idempotencyKey, Keys } from "./idempotency.js";
export { DEFAULT, redact, redactAttributes } from "./redact.js";
export { Redactor } from "./redaction.js";
