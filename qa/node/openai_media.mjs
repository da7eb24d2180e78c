// Vectors, verdicts, pictures, speech and transcripts. The further argument says which; files come and go as base64.
import { toFile } from "openai";

import { rest } from "./common.mjs";
import { caught, client, collect, model, print } from "./client.mjs";

const [what, given = "{}"] = rest;
const options = JSON.parse(given);
const base64 = async (answer) => Buffer.from(await answer.arrayBuffer()).toString("base64");
const file = ({ name, type, data }) => toFile(Buffer.from(data, "base64"), name, { type });
const files = async (list) => Promise.all(list.map(file));
const shown = ({ data, ...answer }) => ({ ...answer, images: data });

const doings = {
  embeddings: async () => {
    const packed = await client.embeddings.create({ model, ...options });
    const plain = await client.embeddings.create({ model, ...options, encoding_format: "float" });
    return { packed, plain };
  },
  moderations: async () => client.moderations.create({ model, ...options }),
  generate: async () => shown(await client.images.generate({ model, ...options })),
  stream: async () => collect(await client.images.generate({ model, ...options, stream: true })),
  edit: async () => {
    const { images, mask, ...fields } = options;
    const image = await files(images);
    const extra = mask ? { mask: await file(mask) } : {};
    return shown(
      await client.images.edit({ model, ...fields, image: image.length === 1 ? image[0] : image, ...extra }),
    );
  },
  variation: async () => {
    const { image, ...fields } = options;
    return shown(await client.images.createVariation({ model, ...fields, image: await file(image) }));
  },
  speech: async () => {
    const answer = await client.audio.speech.create({ model, ...options });
    return { type: answer.headers.get("content-type"), data: await base64(answer) };
  },
  transcription: async () => {
    const { sound, ...fields } = options;
    const answer = await client.audio.transcriptions.create({ model, ...fields, file: await file(sound) });
    return fields.stream ? collect(answer) : answer;
  },
  translation: async () => {
    const { sound, ...fields } = options;
    return client.audio.translations.create({ model, ...fields, file: await file(sound) });
  },
  errors: async () => ({
    input: await caught(() => client.embeddings.create({ model: "local-embed", input: [] })),
    size: await caught(() => client.images.generate({ model: "local-image-1", prompt: "A", size: "1x1" })),
    picture: await caught(async () =>
      client.images.edit({
        model: "local-image-edit",
        prompt: "A",
        image: await toFile(Buffer.from("no picture"), "a.png", { type: "image/png" }),
      }),
    ),
    voice: await caught(() => client.audio.speech.create({ model: "local-tts", input: "A", voice: "nobody" })),
    operation: await caught(() => client.moderations.create({ model: "local-tts", input: "A" })),
  }),
};

print(await doings[what]());
