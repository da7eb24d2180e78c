// The request of the playground as a program: curl, Python and JavaScript. The key is read from the environment.

const KEY = "GATE_API_KEY";

/** The languages, and the function that writes a program: it gets {base, method, path, body, kind}. */
export const LANGUAGES = { curl: writeCurl, Python: writePython, JavaScript: writeJavaScript };

function writeCurl({ base, path, body, kind }) {
  const head = [`curl -sS${body.stream ? "N" : ""} ${quoteShell(base + path)}`, `-H "Authorization: Bearer $${KEY}"`];
  const parts = [...head, "-H 'Content-Type: application/json'"];
  if (kind === "speech") parts.push(`-o speech.${body.response_format ?? "mp3"}`);
  const text = `${parts.join(" \\\n  ")} \\\n  --data-binary @- <<'JSON'\n${JSON.stringify(body, null, 2)}\nJSON\n`;
  if (kind !== "videos") return text;
  return `${text}
# The answer has the id of the task. Ask until its status is completed, then get the file:
# curl -sS -H "Authorization: Bearer $${KEY}" ${quoteShell(`${base}${path}/ID`)}
# curl -sS -H "Authorization: Bearer $${KEY}" -o video.mp4 ${quoteShell(`${base}${path}/ID/content`)}
`;
}

const quoteShell = (text) => `'${text.replaceAll("'", "'\\''")}'`;

const PYTHON_CALLS = {
  chat: "client.chat.completions.create",
  images: "client.images.generate",
  speech: "client.audio.speech.create",
  videos: "client.videos.create",
};
const KNOWN = {
  chat: ["model", "messages", "stream", "stream_options", "temperature", "max_tokens", "tools"],
  images: ["model", "prompt", "size", "n", "quality", "background", "output_format", "style"],
  speech: ["model", "input", "voice", "response_format", "speed"],
  videos: ["model", "prompt", "seconds", "size"],
};

/** The body as arguments that the SDK has, and further members, which it sends as they are. */
function splitBody(body, kind) {
  const entries = Object.entries(body);
  const known = entries.filter(([name]) => KNOWN[kind].includes(name));
  return [known, Object.fromEntries(entries.filter(([name]) => !KNOWN[kind].includes(name)))];
}

function writePython({ base, body, kind }) {
  const [known, extra] = splitBody(body, kind);
  const names = known.map(([name, value]) => `    ${name}=${writePythonValue(value, 1)},`);
  if (Object.keys(extra).length) names.push(`    extra_body=${writePythonValue(extra, 1)},`);
  return `import os

from openai import OpenAI

client = OpenAI(base_url=${writePythonValue(`${base}/v1`)}, api_key=os.environ["${KEY}"])
result = ${PYTHON_CALLS[kind]}(
${names.join("\n")}
)
${writePythonEnd(body, kind)}`;
}

function writePythonEnd(body, kind) {
  if (kind === "speech") return `result.write_to_file("speech.${body.response_format ?? "mp3"}")\n`;
  if (kind === "images") return "for image in result.data:\n    print(image.url or image.b64_json)\n";
  if (kind === "videos") {
    return `while result.status in ("queued", "in_progress", "pending"):
    time.sleep(2)
    result = client.videos.retrieve(result.id)
client.videos.download_content(result.id).write_to_file("video.mp4")
`.replace(/^/, "import time\n\n");
  }
  if (!body.stream) return "print(result.choices[0].message.to_json())\n";
  return `for chunk in result:
    for choice in chunk.choices:
        print(choice.delta.content or "", end="", flush=True)
        for call in choice.delta.tool_calls or ():
            print(call.function.name or "", call.function.arguments or "", end="")
print()
`;
}

/** A JSON value as Python. */
export function writePythonValue(value, depth = 0) {
  const inner = "    ".repeat(depth + 1);
  const end = "    ".repeat(depth);
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value !== "object") return writeJsonText(value);
  const isList = Array.isArray(value);
  const items = isList
    ? value.map((item) => writePythonValue(item, depth + 1))
    : Object.entries(value).map(([name, item]) => `${writeJsonText(name)}: ${writePythonValue(item, depth + 1)}`);
  if (!items.length) return isList ? "[]" : "{}";
  const [open, close] = isList ? "[]" : "{}";
  return `${open}\n${items.map((item) => `${inner}${item},\n`).join("")}${end}${close}`;
}

/** JSON of a number or a text, which Python reads as the same value: both have the escapes \\n, \\" and \\u0000. */
const writeJsonText = (value) => JSON.stringify(value).replaceAll("\u2028", "\\u2028").replaceAll("\u2029", "\\u2029");

const JAVASCRIPT_CALLS = {
  chat: "client.chat.completions.create",
  images: "client.images.generate",
  speech: "client.audio.speech.create",
  videos: "client.videos.create",
};

function writeJavaScript({ base, body, kind }) {
  return `import OpenAI from "openai";
${kind === "speech" || kind === "videos" ? 'import { writeFile } from "node:fs/promises";\n' : ""}
const client = new OpenAI({ baseURL: ${writeJsonText(`${base}/v1`)}, apiKey: process.env.${KEY} });
${kind === "videos" ? "let" : "const"} result = await ${JAVASCRIPT_CALLS[kind]}(${JSON.stringify(body, null, 2)});
${writeJavaScriptEnd(body, kind)}`;
}

function writeJavaScriptEnd(body, kind) {
  if (kind === "speech") {
    return `await writeFile("speech.${body.response_format ?? "mp3"}", Buffer.from(await result.arrayBuffer()));\n`;
  }
  if (kind === "images") return "for (const image of result.data) console.log(image.url ?? image.b64_json);\n";
  if (kind === "videos") {
    return `while (["queued", "in_progress", "pending"].includes(result.status)) {
  await new Promise((resolve) => setTimeout(resolve, 2000));
  result = await client.videos.retrieve(result.id);
}
const file = await client.videos.downloadContent(result.id);
await writeFile("video.mp4", Buffer.from(await file.arrayBuffer()));
`;
  }
  if (!body.stream) return "console.log(JSON.stringify(result.choices[0].message, null, 2));\n";
  return `for await (const chunk of result) {
  for (const { delta } of chunk.choices) {
    process.stdout.write(delta.content ?? "");
    for (const call of delta.tool_calls ?? []) process.stdout.write(JSON.stringify(call.function));
  }
}
console.log();
`;
}
