// Sound of a realtime session: from the microphone, and to the loudspeaker. PCM16 with 24,000 samples a second, in base64.

const RATE = 24_000;

/** Call `onPiece(base64, level, seconds)` for each 100 ms of the microphone; `level` is 0 to 1. Returns an object with `stop`. */
export async function openMicrophone(onPiece) {
  const stream = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1, echoCancellation: true, noiseSuppression: true } });
  const context = new AudioContext();
  const stop = () => {
    for (const track of stream.getTracks()) track.stop();
    return context.close();
  };
  try {
    await context.audioWorklet.addModule(new URL("./playground_microphone.js", import.meta.url));
  } catch (error) {
    await stop();
    throw error;
  }
  const node = new AudioWorkletNode(context, "microphone", { numberOfOutputs: 0 });
  node.port.onmessage = ({ data }) => onPiece(encode(data.pcm), data.level, data.pcm.byteLength / 2 / RATE);
  context.createMediaStreamSource(stream).connect(node);
  return { stop };
}

function encode(buffer) {
  const bytes = new Uint8Array(buffer);
  let text = "";
  for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(text);
}

/** Plays pieces one after the other. */
export class Loudspeaker {
  constructor() {
    this.context = new AudioContext();
    this.end = 0;
    this.playing = new Set();
    this.seconds = 0;
  }

  /** Play a piece after those before it. An odd byte at its end is dropped. */
  play(base64) {
    const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
    const samples = new Int16Array(bytes.buffer, 0, bytes.length >> 1);
    if (!samples.length) return;
    const buffer = this.context.createBuffer(1, samples.length, RATE);
    buffer.copyToChannel(Float32Array.from(samples, (sample) => sample / 32_768), 0);
    const source = new AudioBufferSourceNode(this.context, { buffer });
    source.connect(this.context.destination);
    this.end = Math.max(this.end, this.context.currentTime);
    source.start(this.end);
    this.end += buffer.duration;
    this.seconds += buffer.duration;
    this.playing.add(source);
    source.onended = () => this.playing.delete(source);
  }

  /** Stop what plays: the person speaks. */
  silence() {
    for (const source of this.playing) source.stop();
    this.playing.clear();
    this.end = 0;
  }

  close() {
    this.silence();
    return this.context.close();
  }
}
