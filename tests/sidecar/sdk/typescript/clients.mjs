// An agent that asks by the real clients, which were made before its recording began.
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { record, tool } from "./sdk/src/recorder.js";

const [path, base] = process.argv.slice(2);
const openai = new OpenAI({ apiKey: "sk-live-4eC39HqLyjWDarjtT1", baseURL: `${base}/v1`, maxRetries: 0 });
const anthropic = new Anthropic({ apiKey: "sk-live-4eC39HqLyjWDarjtT1", baseURL: base, maxRetries: 0 });
const note = tool((text) => text, { name: "note", parameters: ["text"] });
const messages = [{ role: "user", content: "hello" }];

await record(path, { capture: "full", roots: ["."] }, async () => {
  note((await openai.chat.completions.create({ model: "a", messages })).choices[0].message.content);
  for await (const chunk of await openai.chat.completions.create({ model: "b", messages, stream: true })) void chunk;
  await Promise.all(["c", "d"].map((model) => openai.responses.create({ model, input: "hello" })));
  note("both");
  const said = await anthropic.messages.stream({ model: "e", max_tokens: 9, messages }).finalMessage();
  note(said.content[0].text);
  await openai.chat.completions.create({ model: "f", messages }).catch((error) => note(error.constructor.name));
});
