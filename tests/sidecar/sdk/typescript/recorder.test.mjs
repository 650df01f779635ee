// The recorder: what is written, what is passed on, and that nothing of it is left.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { randomInt, webcrypto as crypto } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
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

test("a tool that listens hears the agent while it is recorded, and is the object it was", async () => {
  const offers = function* offers(price) {
    for (;;) {
      try {
        price = (yield price) ?? price - 10;
        if (price < 0) return "free";
      } catch (error) {
        yield `gone: ${error.message}`;
      }
    }
  };
  const feed = async function* feed(price) {
    try {
      yield yield price;
    } catch (error) {
      yield `gone: ${error.message}`;
    }
    return "end";
  };
  const talk = async (first, second) => {
    const [one, two, three] = [first(30), second(1), second(2)];
    const said = [one.next(), one.next(12), one.throw(new Error("tea")), one.next(), one.next(-1)];
    said.push(await two.next(), await two.next("well?"), await two.next());
    said.push(await three.next(), await three.throw(new Error("milk")));
    return said;
  };
  const cursor = { rows: [1], next: () => ({ done: true }), toArray: () => [1], [Symbol.asyncIterator]: () => cursor };
  class Shop {
    static open = true;
  }
  let said;
  const tape = await taped(async () => {
    said = await talk(tool(offers), tool(feed));
    assert.equal(tool(() => cursor, { name: "find" })(), cursor);
    assert.deepEqual([tool(Shop).open, new (tool(Shop))() instanceof Shop], [true, true]);
  });
  assert.equal(tape.error, null);
  assert.deepEqual(said, await talk(offers, feed));
  assert.deepEqual(named(tape, "feed").map((one) => one.chunks?.length ?? 0).sort(), [0, 0, 2, 2]);
  assert.throws(() => tool({}), /a tool is a function/);
});

test("an argument without a form is told by its class, and a value that throws is one event all the same", async () => {
  const plus = tool(() => 1, { name: "plus" });
  const loop = {};
  Object.assign(loop, { self: loop, again: loop });
  const tape = await taped(() => {
    plus({ q: "tea", signal: new AbortController().signal, done() {}, who: Symbol("me"), n: NaN, [Symbol("x")]: 1 });
    plus({ q: new Set([1]), at: new Date(0), loop });
    plus({ get a() { throw new Error("no"); } });
    plus(new URL("http://x.example/"));
    tool(() => ({ get a() { throw new Error("no"); } }), { name: "lost" })();
  });
  const typed = (type, value) => ({ type, value });
  assert.deepEqual(named(tape, "plus").filter((one) => one.kind === "tool_call").map((one) => one.inl.in), [
    { q: "tea", signal: {}, done: typed("object", "Function"), who: typed("object", "Symbol"), n: typed("float", "nan") },
    {
      q: typed("object", "Set"),
      at: "1970-01-01T00:00:00.000Z",
      loop: { self: typed("object", "Object"), again: typed("object", "Object") },
    },
    { args: [typed("object", "Object")] },
    { args: ["http://x.example/"] },
  ]);
  assert.deepEqual(named(tape, "lost").map((one) => one.inl ?? null), [{ in: {} }, null]);
  assert.deepEqual([tape.seal.counters.truncated, tape.seal.counters.dropped], [1, 0]);
});

test("a server's stream changes nothing in the agent's process, whatever keys it has", async () => {
  const delta = '{"__proto__":{"polluted":1},"content":"hi","tool_calls":[{"index":0,"__proto__":{"polluted":2}}]}';
  const parts = {
    chat: [`{"choices":[{"index":0,"delta":${delta}}]}`, `{"choices":[{"index":0,"delta":${delta}}]}`],
    messages: [
      `{"type":"message_start","message":{"__proto__":{"polluted":3},"usage":{"__proto__":{"polluted":4}}}}`,
      `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"","__proto__":{"polluted":5}}}`,
      `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi","__proto__":{"polluted":6}}}`,
      `{"type":"message_delta","delta":{"__proto__":{"polluted":7}},"usage":{"__proto__":{"polluted":8}}}`,
    ],
  };
  handle = (request, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.end(parts[request.url.includes("chat") ? "chat" : "messages"].map((one) => `data: ${one}\n\n`).join(""));
  };
  const tape = await taped(async () => {
    for (const path of ["/chat/completions", "/messages"]) {
      const body = JSON.stringify({ model: "m", messages: [] });
      await (await fetch(base + path, { method: "POST", body })).text();
    }
  });
  assert.equal({}.polluted, undefined);
  const [chat, message] = named(tape, "m").map((one) => one.inl.out);
  assert.equal(chat.choices[0].message.content, "hihi");
  assert.deepEqual(message.content, JSON.parse('[{"type":"text","text":"hi","__proto__":{"polluted":6}}]'));
});

test("a response can be cloned and read into one's own buffer, a date knows its class", async () => {
  handle = (request, response) => response.end("tea");
  const tape = await taped(async () => {
    const response = await fetch(`${base}/here`);
    const twin = response.clone();
    assert.deepEqual([twin.url, twin.type, await twin.text(), await response.text()], [`${base}/here`, "basic", "tea", "tea"]);
    const own = (await fetch(base)).body.getReader({ mode: "byob" });
    const { value } = await own.read(new Uint8Array(10));
    assert.equal(Buffer.from(value).toString(), "tea");
    assert.equal((await own.read(new Uint8Array(10))).done, true);
    assert.equal(new Date().constructor, Date);
  });
  assert.equal(tape.error, null);
  assert.equal(new Date().constructor, Date);
  assert.deepEqual(named(tape, "GET 127.0.0.1/").map((one) => one.inl?.out?.body ?? null), [null, "tea"]);
});

test("who is stopped for a reason of one's own is cancelled, a time that is up is told by its name", async () => {
  handle = () => {}; // no answer
  const tape = await taped(async () => {
    const aborter = new AbortController();
    const going = fetch(base, { signal: aborter.signal });
    aborter.abort(new Error("the user left"));
    await assert.rejects(going, /the user left/);
    await assert.rejects(fetch(base, { signal: AbortSignal.timeout(1) }), { name: "TimeoutError" });
  });
  const answers = named(tape, "GET 127.0.0.1/").filter((one) => one.kind === "tool_result");
  assert.deepEqual(answers.map((one) => [one.st, one.err?.type]), [["cancelled", undefined], ["error", "TimeoutError"]]);
});

test("a process that leaves in the middle leaves a sealed tape that says how", () => {
  const recorder = JSON.stringify(new URL("../../../../sidecar/sdk/typescript/src/recorder.js", import.meta.url).href);
  const ways = {
    "process.exit(0)": ["ok", null],
    "process.exit(3)": ["error", "exit 3"],
    "setImmediate(() => { throw new RangeError('nobody') })": ["error", "RangeError"],
    "0": ["error", "exit 13"], // nothing left to wait for
  };
  for (const [way, expected] of Object.entries(ways)) {
    const path = join(folder, `${(made += 1)}.tape`);
    const code = `import { record } from ${recorder};
      await record(${JSON.stringify(path)}, { capture: "full" }, async (recording) => {
        recording.output("so far");
        ${way};
        await new Promise(() => {});
      });`;
    spawnSync(process.execPath, ["--input-type=module", "-e", code]);
    const records = readFileSync(path, "utf8").trim().split("\n").map((line) => JSON.parse(line));
    const end = records.at(-2);
    assert.deepEqual([end.st, end.inl.out.reason, end.inl.out.output, records.at(-1).rec], [...expected, "so far", "seal"], way);
  }
});

test("what is told wrongly is refused before anything is made, and the next recording goes on", async () => {
  const path = join(folder, "none.tape");
  for (const wrong of [null, 5, { captur: "full" }, { roots: "src" }, { labels: { a: 1 } }, { agent: "" }, { redactor: {} }]) {
    await assert.rejects(record(path, wrong, () => 1), TypeError);
  }
  await assert.rejects(record(path, {}), /act is a function/);
  await assert.rejects(record(path, { roots: [join(folder, "gone")] }, () => 1), /ENOENT/);
  await assert.rejects(record(join(folder, "gone", "a.tape"), {}, () => 1), /ENOENT/);
  assert.equal(existsSync(path), false);
  assert.equal(await record(path, () => "digests only"), "digests only");
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
