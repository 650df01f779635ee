// Answers what the TypeScript twin gives, a JSON line each, for comparison with Python.
import { createInterface } from "node:readline";
import { canonical, NotCanonical } from "../../../../sidecar/sdk/typescript/src/canonical.js";
import { idempotencyKey, redact, Redactor } from "../../../../sidecar/sdk/typescript/src/index.js";
import { encoded } from "../../../../sidecar/sdk/typescript/src/value.js";

const keyed = new Redactor([], { forms: "tokenise", key: Buffer.from("k".repeat(32)) });
const asked = {
  redact: (value) => canonical(encoded(redact(value))),
  tokenise: (value) => canonical(encoded(redact(value, keyed))),
  key: (value) => idempotencyKey("run", "tool", value),
  canonical: (value) => canonical(encoded(value)),
};

for await (const line of createInterface({ input: process.stdin })) {
  const { ask, value } = JSON.parse(line);
  let answer;
  try {
    answer = { is: asked[ask](value) };
  } catch (error) {
    if (!(error instanceof NotCanonical)) throw error;
    answer = { refused: true };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
