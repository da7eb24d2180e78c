// Runs in the browser's audio thread: the microphone's samples as PCM16 with 24,000 samples a second, in pieces of 100 ms.

const RATE = 24_000;
const PIECE = RATE / 10;

class Microphone extends AudioWorkletProcessor {
  constructor() {
    super();
    this.step = sampleRate / RATE;
    this.position = 0; // of the next sample of the output, in samples of the input since the start of `last`
    this.last = 0;
    this.piece = new Int16Array(PIECE);
    this.length = 0;
    this.loudest = 0;
  }

  process([channels]) {
    const input = channels?.[0];
    if (!input) return true;
    // Linear interpolation between input[at - 1] and input[at]; `last` is the sample before input[0].
    while (this.position < input.length) {
      const at = Math.floor(this.position);
      const before = at === 0 ? this.last : input[at - 1];
      this.#add(before + (input[at] - before) * (this.position - at));
      this.position += this.step;
    }
    this.position -= input.length;
    this.last = input[input.length - 1];
    return true;
  }

  #add(sample) {
    this.loudest = Math.max(this.loudest, Math.abs(sample));
    this.piece[this.length++] = Math.max(-1, Math.min(1, sample)) * 32_767;
    if (this.length === PIECE) {
      this.port.postMessage({ pcm: this.piece.buffer, level: this.loudest }, [this.piece.buffer]);
      this.piece = new Int16Array(PIECE);
      this.length = 0;
      this.loudest = 0;
    }
  }
}

registerProcessor("microphone", Microphone);
