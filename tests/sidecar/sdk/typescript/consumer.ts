// What an agent in TypeScript writes compiles under the strictest rules, and its mistakes do not.
import { claim, idempotencyKey, Keys, redact, Redactor, tell } from "agenttwin-sidecar";
import { record, tool } from "agenttwin-sidecar/recorder";

const refund = tool(async (asked: { order: string; amount: number }) => ({ done: asked.order }), { name: "refund" });
const path: Promise<string> = record("x.tape", { capture: "redacted" }, async (recording) => {
  const { done } = await refund({ order: "A", amount: 1 });
  recording.output(done);
  return done;
});
const told: boolean = tell(claim("refund", "success", { amount: "1.50", currency: "EUR" }));
const key: string = idempotencyKey("run", "refund", { order: "A" }) + new Keys("run").next("refund");
const hidden: unknown = redact({ a: 1 }, new Redactor([{ mode: "drop", path: "/a" }]));
// @ts-expect-error a status that is none
claim("refund", "perhaps");
// @ts-expect-error an argument of another type
void refund({ order: 1, amount: 1 });
// @ts-expect-error a mode that is none
new Redactor([{ mode: "hide", path: "/a" }]);
export { hidden, key, path, told };
