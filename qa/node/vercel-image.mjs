// Pictures made and edited by the SDK, which reads base64 only. The further argument is the picture to edit, as base64.
import { createOpenAI } from "@ai-sdk/openai";
import { generateImage } from "ai";

import { apiKey, baseURL, model, print, rest } from "./common.mjs";

const image = createOpenAI({ baseURL: `${baseURL}/v1`, apiKey }).image(model);
const [given] = rest;
const prompt = given ? { text: "a hat", images: [Buffer.from(given, "base64")] } : "a cat";
const { images } = await generateImage({ model: image, prompt, maxRetries: 0 });
print(images.map(({ base64, mediaType }) => ({ base64, mediaType })));
