// What the Python SDK gives for the inputs of vectors.json, the twin gives too.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { canonical } from "../../../../sidecar/sdk/typescript/src/canonical.js";
import * as sdk from "../../../../sidecar/sdk/typescript/src/index.js";
import { decoded, encoded } from "../../../../sidecar/sdk/typescript/src/value.js";

// Integers that no number of JavaScript holds are read as the bigint a caller would have.
const source = readFileSync(new URL("../vectors.json", import.meta.url), "utf8");
const exact = source.replace(/(?<=[[ ,:])([1-9][0-9]{16,18})(?=[\],}])/g, '{"exact": "$1"}');
const vectors = JSON.parse(exact, (_, value) =>
  typeof value?.exact === "string" ? BigInt(value.exact) : value,
);

test("values have the canonical text that Python gives them, and come back", () => {
  for (const [value, text] of vectors.canonical) {
    assert.equal(canonical(encoded(value)), text);
    assert.equal(canonical(encoded(decoded(encoded(value)))), text);
  }
});

test("redaction gives what Python's gives, and twice is once", () => {
  for (const [value, expected] of vectors.redact) {
    assert.deepEqual(sdk.redact(value), expected);
    assert.deepEqual(sdk.redact(expected), expected);
  }
  for (const [value, expected] of vectors.attributes) {
    assert.deepEqual(sdk.redactAttributes(value), expected);
  }
});

test("rules of one's own give what Python's give, under the same identity", () => {
  const { rules, forms, key, version, cases } = vectors.rules;
  const redactor = new sdk.Redactor(rules, { forms, key: Buffer.from(key) });
  assert.equal(redactor.identity.get("version"), version);
  for (const [value, expected] of cases) assert.deepEqual(sdk.redact(value, redactor), expected);
});

test("claims are the attributes that Python makes, and the same are refused", () => {
  for (const [{ subject, status, ...said }, expected] of vectors.claims) {
    if (expected === null) assert.throws(() => sdk.claim(subject, status, said), TypeError);
    else assert.deepEqual(sdk.claim(subject, status, said), expected);
  }
});

test("idempotency keys are Python's, in series too", () => {
  for (const [run, tool, args, key] of vectors.keys) {
    assert.equal(sdk.idempotencyKey(run, tool, args), key);
  }
  const keys = new sdk.Keys("run");
  for (const [tool, args, key] of vectors.series) assert.equal(keys.next(tool, args), key);
});

test("what has no form is refused, and redacted away", () => {
  for (const value of [NaN, Infinity, "\ud800", new Set(), () => 1, Symbol("x")]) {
    assert.throws(() => canonical(encoded(value)), sdk.NotCanonical);
  }
  assert.equal(sdk.redact({ a: () => 1 }), "[unreadable]");
  assert.equal(canonical(encoded({ at: new Date(0), no: undefined })), '{"at":"1970-01-01T00:00:00.000Z"}');
  assert.throws(() => sdk.idempotencyKey("", "tool"), TypeError);
});

test("a claim is told on a span that records, and spans are redacted before they are exported", () => {
  const events = [];
  const span = { isRecording: () => true, addEvent: (...event) => events.push(event) };
  const said = sdk.claim("refund", "success");
  assert.equal(sdk.tell(said, span), true);
  assert.deepEqual(events, [["agenttwin.claim", said]]);
  assert.equal(sdk.tell(said, { ...span, isRecording: () => false }), false);

  class Finished {
    name = "chat a@b.example";
    attributes = { password: "hunter22", n: 1 };
    events = [{ name: "e", attributes: { "x.token": "abcdefgh" } }];
    links = [];
    status = { code: 2, message: "no a@b.example" };
    spanContext() {
      return this.name; // the span's own methods see the span
    }
  }
  const got = [];
  const exporter = new sdk.RedactingExporter({ export: (spans, done) => (got.push(...spans), done("ok")) });
  let result;
  exporter.export([new Finished(), { name: 1, events: null }], (one) => (result = one));
  assert.equal(result, "ok");
  assert.equal(exporter.refused, 1);
  assert.equal(got.length, 1);
  assert.equal(got[0].name, "chat [email]");
  assert.deepEqual({ ...got[0] }.attributes, { password: "[secret]", n: 1 });
  assert.deepEqual(got[0].events[0].attributes, { "x.token": "[secret]" });
  assert.deepEqual(got[0].status, { code: 2, message: "no [email]" });
  assert.equal(got[0].spanContext(), "chat a@b.example");
});
