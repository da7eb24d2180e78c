// A whole answer, the same streamed, and a conversation kept by the SDK. Fourth argument: the version of the address.
import { asking, client as standard, connect, says } from "./google-client.mjs";
import { apiKey, collect, model, print, rest } from "./common.mjs";

const client = rest[0] ? connect(apiKey, { apiVersion: rest[0] }) : standard;
const ask = asking("Say hello", { systemInstruction: "Be brief.", maxOutputTokens: 500 });
const whole = await client.models.generateContent(ask);
const chunks = await collect(await client.models.generateContentStream(ask));

const chat = client.chats.create({ model, history: [says("hi"), { role: "model", parts: [{ text: "Hello." }] }] });
const spoken = await collect(await chat.sendMessageStream({ message: "Say hello" }));

print({
  text: whole.text,
  role: whole.candidates[0].content.role,
  reason: whole.candidates[0].finishReason,
  usage: whole.usageMetadata,
  version: whole.modelVersion,
  id: whole.responseId,
  requestId: whole.sdkHttpResponse.headers["x-request-id"],
  chunks: chunks.length,
  streamedText: chunks.map(({ text }) => text ?? "").join(""),
  reasons: chunks.map(({ candidates }) => candidates?.[0]?.finishReason).filter(Boolean),
  streamedUsage: chunks.at(-1).usageMetadata,
  spoken: spoken.map(({ text }) => text ?? "").join(""),
});
