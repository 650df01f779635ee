// The recorder: what is written, what is passed on, and that nothing of it is left.
import assert from "node:assert/strict";
import { randomInt, webcrypto as crypto } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { record, tool } from "../../../../sidecar/sdk/typescript/src/recorder.js";

let folder, server, base, handle;
before(async () => {
  folder = mkdtempSync(join(tmpdir(), "tape-"));
  server = createServer((request, response) => handle(request, response));
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  base = `http://127.0.0.1:${server.address().port}`;
});
after(() => {
  server.closeAllConnections();
  server.close();
  rmSync(folder, { recursive: true });
});

const roots = [import.meta.dirname ?? process.cwd()];
let made = 0;

/** Record; the tape's header, events and seal. */
async function taped(act, options = {}) {
  const path = join(folder, `${(made += 1)}.tape`);
  let error = null;
  try {
    await record(path, { capture: "full", roots, ...options }, act);
  } catch (thrown) {
    error = thrown;
  }
  const records = readFileSync(path, "utf8").trim().split("\n").map((line) => JSON.parse(line));
  const events = records.filter((one) => one.rec === "event");
  return { path, error, header: records[0], events, seal: records.at(-1) };
}
const named = ({ events }, name) => events.filter((event) => event.name === name);

test("a stream is passed on piece by piece while it is recorded", async () => {
  let more;
  handle = (request, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write("data: one\n\n");
    more = () => response.end("data: two\n\n");
  };
  const tape = await taped(async () => {
    const response = await fetch(base);
    const reader = response.body.getReader();
    const first = await reader.read();
    assert.equal(Buffer.from(first.value).toString(), "data: one\n\n");
    more(); // the server says no more before the agent has the first piece
    while (!(await reader.read()).done);
  });
  assert.equal(tape.error, null);
  const [, answer] = named(tape, "GET 127.0.0.1/");
  assert.equal(answer.chunks.length, 2);
  assert.equal(answer.st, "ok");
});

test("who stops reading is told of as that, and who is aborted as cancelled", async () => {
  handle = (request, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write("data: one\n\n");
  };
  const tape = await taped(async () => {
    const stopped = await fetch(base);
    await stopped.body.cancel();
    const aborter = new AbortController();
    const response = await fetch(base, { signal: aborter.signal });
    aborter.abort();
    await assert.rejects(response.text());
  });
  assert.deepEqual(named(tape, "GET 127.0.0.1/").map((one) => one.st ?? "unset"), ["unset", "cancelled", "unset", "cancelled"]);
});

test("a response is the one that fetch gives: url, status, cookies, errors", async () => {
  handle = (request, response) => {
    response.writeHead(request.url === "/gone" ? 410 : 200, { "content-type": "application/json", "set-cookie": ["a=1", "b=2"] });
    response.end('{"n":1}');
  };
  const tape = await taped(async () => {
    const response = await fetch(`${base}/here#part`, { method: "PUT", body: new URLSearchParams({ pin: "1234", a: "b" }) });
    assert.equal(response.url, `${base}/here`);
    assert.deepEqual(response.headers.getSetCookie(), ["a=1", "b=2"]);
    assert.ok(response.ok && response instanceof Response);
    assert.deepEqual(await response.json(), { n: 1 });
    assert.equal((await fetch(`${base}/gone`)).status, 410);
    await assert.rejects(fetch("http://127.0.0.1:9/none"), TypeError);
    await assert.rejects(fetch("no url"), TypeError);
  });
  assert.equal(tape.error, null);
  const [asked, answer] = named(tape, "PUT 127.0.0.1/here");
  assert.deepEqual(asked.inl.in.body, { form: { pin: ["1234"], a: ["b"] } });
  assert.deepEqual(answer.attr.http.cookies, [["a", ""], ["b", ""]]);
  assert.deepEqual(named(tape, "GET 127.0.0.1/gone").map((one) => one.err?.type), [undefined, "HTTP 410"]);
  assert.deepEqual(named(tape, "GET 127.0.0.1/none").map((one) => one.err?.type), [undefined, "TypeError"]);
});

test("clock and dice of the agent's own files are told, a library's are not", async () => {
  const foreign = new Function("return [Math.random(), Date.now()]"); // of no file
  const given = [];
  const tape = await taped(() => {
    given.push(Date.now(), new Date().getTime(), Math.random(), randomInt(10), crypto.randomUUID());
    foreign();
    assert.ok(new Date(0) instanceof Date && new Date(0).getTime() === 0);
    assert.equal(Date.UTC(1970, 0), 0);
  });
  assert.equal(tape.error, null);
  const told = tape.events.filter((one) => ["clock", "entropy"].includes(one.seam));
  assert.deepEqual(told.map((one) => one.name), ["Date.now", "new Date", "Math.random", "crypto.randomInt", "crypto.randomUUID"]);
  assert.deepEqual(told.map((one) => one.inl.out), given);
  assert.deepEqual(told.map((one) => one.cause), [[0], [1], [2], [3], [4]]);
});

test("what comes after what is a matter of cause, not of time", async () => {
  const step = tool(async (name, ms) => void (await new Promise((done) => setTimeout(done, ms))), { name: "step" });
  for (const [one, other] of [[20, 1], [1, 20]]) {
    const tape = await taped(async () => {
      const branch = async (name, ms) => {
        await step(name, ms);
        await step(`${name} again`, 1);
      };
      const apart = branch("apart", 1);
      await Promise.all([branch("a", one), branch("b", other)]);
      await step("after both", 1);
      await apart;
      await Promise.race([step("fast", 1), step("slow", 40)]);
      await step("after fast", 1);
    });
    const calls = Object.fromEntries(
      named(tape, "step").filter((event) => event.kind === "tool_call").map((event) => [event.inl.in.args[0], event]),
    );
    const before = (name) => calls[name].cause.map((seq) => tape.events[tape.events[seq].cause?.[0] ?? 0].inl?.in.args[0]).sort();
    assert.deepEqual(before("a again"), ["a"]);
    assert.deepEqual(before("b again"), ["b"]);
    assert.deepEqual(before("after both"), ["a again", "b again"]);
    assert.deepEqual(before("fast"), ["after both", "apart again"]);
    assert.deepEqual(before("after fast"), ["fast"]);
  }
});

test("tools throw what they threw, stream what they stream, and are themselves outside", async () => {
  const fails = tool(() => { throw new RangeError("too much"); }, { name: "fails" });
  const counts = tool(function* counts() { yield 1; yield 2; return 3; });
  const plus = tool((a, b) => a + b, { name: "plus", parameters: ["a", "b"] });
  assert.equal(plus(1, 2), 3);
  const tape = await taped(async () => {
    assert.throws(() => fails(), RangeError);
    assert.deepEqual([...counts()], [1, 2]);
    for (const one of counts()) if (one === 1) break;
    plus(1, 2);
    await tool(async () => fails(), { name: "outer" })().catch(() => {});
    tool(() => new Set(), { name: "lost" })();
  });
  assert.deepEqual(named(tape, "fails").map((one) => one.inl ?? null), [{ in: {} }, { out: { raised: ["too much"] } }]);
  assert.deepEqual(named(tape, "counts").map((one) => [one.kind, one.chunks?.length ?? 0, one.st ?? "unset"]), [
    ["tool_call", 0, "unset"], ["tool_result", 2, "ok"], ["tool_call", 0, "unset"], ["tool_result", 1, "cancelled"],
  ]);
  assert.deepEqual(named(tape, "plus")[0].inl.in, { a: 1, b: 2 });
  assert.equal(tape.seal.counters.truncated, 1);
});

test("what fails inside is thrown on, and the tape is sealed all the same", async () => {
  const tape = await taped(() => Promise.reject(new TypeError("no")));
  assert.equal(tape.error.message, "no");
  assert.deepEqual([tape.seal.rec, tape.events.at(-1).st, tape.events.at(-1).inl.out.reason], ["seal", "error", "TypeError"]);
});

test("one tape at a time, inside of it one is one; afterwards clock and dice are the real ones", async () => {
  const real = [Date, Date.now, Math.random, performance.now, crypto.randomUUID, Promise.all];
  const path = join(folder, "inner.tape");
  const tape = await taped(async (recording) => {
    await record(path, {}, (inner) => inner.output("said inside"));
    assert.notEqual(Math.random, real[2]);
    recording.session.output.verified = null;
  });
  assert.throws(() => readFileSync(path));
  assert.equal(tape.events.at(-1).inl.out.output, "said inside");
  assert.deepEqual([Date, Date.now, Math.random, performance.now, crypto.randomUUID, Promise.all], real);
  await assert.rejects(record(tape.path, {}, () => 1), /EEXIST/);
  await assert.rejects(record(path, { capture: "all" }, () => 1), TypeError);
  let other;
  const going = taped(() => new Promise((done) => (other = done)));
  await new Promise((done) => setImmediate(done));
  await assert.rejects(record(path, {}, () => 1), /one tape at a time/);
  other();
  assert.equal((await going).error, null);
});
