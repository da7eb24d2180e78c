// Videos as tasks. The further argument says which; files come and go as base64.
import { toFile } from "openai";

import { rest } from "./common.mjs";
import { caught, client, model, print } from "./client.mjs";

const [what, given = "{}"] = rest;
const { picture, ...fields } = JSON.parse(given);
const asked = { model, ...fields };
const base64 = async (answer) => Buffer.from(await answer.arrayBuffer()).toString("base64");

const begin = async () => {
  const file = picture && (await toFile(Buffer.from(picture, "base64"), "a.png", { type: "image/png" }));
  return client.videos.create(file ? { ...asked, input_reference: file } : asked);
};

// The states that a task has until it ends, each once, and what it is then.
const followed = async (id) => {
  const states = [];
  for (;;) {
    const video = await client.videos.retrieve(id, { query: { wait: 1 } });
    if (states.at(-1) !== video.status) states.push(video.status);
    if (video.status === "completed" || video.status === "failed") return { states, video };
  }
};

const doings = {
  make: async () => {
    const created = await begin();
    const early = await caught(() => client.videos.downloadContent(created.id));
    const ended = await followed(created.id);
    const content = await client.videos.downloadContent(created.id);
    return { created, early, ...ended, type: content.headers.get("content-type"), data: await base64(content) };
  },
  list: async () => {
    const ids = [];
    for (let number = 0; number < 3; number += 1) ids.push((await begin()).id);
    const found = [];
    for await (const video of client.videos.list({ limit: 2 })) found.push(video.id);
    const deleted = [];
    for (const id of ids) deleted.push(await client.videos.delete(id));
    const left = (await client.videos.list()).data.map((video) => video.id);
    return { ids, found, deleted, left };
  },
  remix: async () => {
    const first = await followed((await begin()).id);
    const changed = await client.videos.remix(first.video.id, { prompt: "now in the rain" });
    return { first: first.video, changed, ended: (await followed(changed.id)).video };
  },
  errors: async () => ({
    size: await caught(() => client.videos.create({ ...asked, size: "big" })),
    model: await caught(() => client.videos.create({ ...asked, model: "no-such-model" })),
    picture: await caught(async () =>
      client.videos.create({ ...asked, input_reference: await toFile(Buffer.from("text"), "a.png") }),
    ),
    task: await caught(() => client.videos.retrieve("video_none")),
  }),
};

print(await doings[what]());
