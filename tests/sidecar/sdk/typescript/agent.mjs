// The agent of test_typescript_tapes.py, as it is written in Python there: records itself.
import { claim, tell } from "../../../../sidecar/sdk/typescript/src/index.js";
import { record, tool } from "../../../../sidecar/sdk/typescript/src/recorder.js";

const [path, capture, base, slow] = process.argv.slice(2);
const asked = (more) => ({
  method: "POST",
  headers: { "content-type": "application/json", authorization: "Bearer sk-live-4eC39HqLyjWDarjtT1" },
  body: JSON.stringify({ model: "m-1", messages: [{ role: "user", content: "I am ann@mail.example.org" }], ...more }),
});
const refund = tool(
  async ({ order_id: id, amount }) => {
    await new Promise((done) => setTimeout(done, id === slow ? 30 : 1));
    await fetch(`${base}/inside`); // a tool's own affair
    return { order_id: id, refunded: amount, password: "hunter22-and-more" };
  },
  { name: "refund" },
);
const lines = tool(
  async function* lines() {
    yield "one";
    yield { two: 2.0 };
  },
  { name: "lines" },
);

await record(path, { capture, roots: [import.meta.dirname ?? "."] }, async (recording) => {
  const first = await (await fetch(`${base}/v1/chat/completions`, asked({ temperature: 1.0 }))).json();
  await Promise.all([refund({ order_id: "A", amount: 25.0 }), refund({ order_id: "B", amount: 1.5 })]);
  for await (const line of lines()) void line;
  const streamed = await fetch(`${base}/v1/chat/completions`, asked({ stream: true }));
  for await (const chunk of streamed.body) void chunk;
  const weather = await fetch(`${base}/weather?city=Bern&token=abcdefgh`, { headers: { accept: "*/*" } });
  await weather.text();
  tell(claim("refund", "success"));
  recording.output(first.choices[0].message.content);
});
