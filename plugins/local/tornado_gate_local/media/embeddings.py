"""Vectors of texts by hashing: words, pairs of words and parts of words, each to one place of the vector, plus or minus.

Near means: shares words, or words that are spelled alike. Nothing here knows that a car is an automobile, and a text is
never near its translation. Vectors have length 1, so that the scalar product of two is their similarity. The same text
gives the same vector on every machine; vectors of different `dimensions` have nothing to do with each other.
"""

from __future__ import annotations

import math
import re
import struct
import unicodedata
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from zlib import crc32

from tornado_gate.types.value import Value
from tornado_gate_local.media.errors import MediaError
from tornado_gate_local.media.workers import POOL, WorkerPool
from tornado_gate_local.words import STOP_WORDS, count_tokens, get_stem

DEFAULT_DIMENSIONS = 256
MAX_DIMENSIONS = 4_096
MAX_TEXTS = 2_048
MAX_CHARACTERS_IN_LOOP = 4_000  # characters and numbers that take the event loop about as long as a chat request does

PAIR_WEIGHT = 0.6  # the weight of two neighbouring words, where a word has 1
PARTS_WEIGHT = 0.8  # the weight of all parts of a word together
STOP_WORD_WEIGHT = 0.12  # the weight of a word that every text has
MAX_WORD_LENGTH = 40  # letters of a word whose parts are taken

_WORD = re.compile(r"\w+")


class EmbeddingVectors(Value, frozen=True, kw_only=True):
    """`data` has one vector after another, each of `dimensions` little-endian 32-bit floats; `tokens` is of all texts."""

    data: bytes
    dimensions: int
    tokens: int

    def __len__(self) -> int:
        return len(self.data) // (4 * self.dimensions)

    def get_packed(self, number: int) -> bytes:
        """The floats of one vector as bytes."""
        size = 4 * self.dimensions
        return self.data[number * size : (number + 1) * size]

    def get_floats(self, number: int) -> tuple[float, ...]:
        return struct.unpack(f"<{self.dimensions}f", self.get_packed(number))

    def get_base64(self, number: int) -> str:
        """As `encoding_format: base64` wants it."""
        return b64encode(self.get_packed(number)).decode("ascii")


async def embed_in_worker(
    texts: Sequence[str], dimensions: int = DEFAULT_DIMENSIONS, pool: WorkerPool = POOL
) -> EmbeddingVectors:
    """`embed` for an event loop: much work is done in a worker process. Raises as `embed` and `WorkerPool.run` do."""
    if sum(map(len, texts)) + len(texts) * dimensions <= MAX_CHARACTERS_IN_LOOP:
        return embed(texts, dimensions)
    return await pool.run(embed, tuple(texts), dimensions)


def embed(texts: Sequence[str], dimensions: int = DEFAULT_DIMENSIONS) -> EmbeddingVectors:
    """One vector for each text. Raises MediaError for "dimensions" (1 to 4,096) and "input" (1 to 2,048 texts)."""
    check_arguments(len(texts), dimensions)
    form = struct.Struct(f"<{dimensions}f")
    data = b"".join(form.pack(*make_vector(text, dimensions)) for text in texts)
    return EmbeddingVectors(data=data, dimensions=dimensions, tokens=count_tokens(texts))


def check_arguments(count: int, dimensions: int) -> None:
    """Raises MediaError for "dimensions" and for "input", when `count` texts are none or too many."""
    if not 1 <= dimensions <= MAX_DIMENSIONS:
        raise MediaError("dimensions", f"A vector has 1 to {MAX_DIMENSIONS:,} dimensions, not {dimensions}.")
    if not 1 <= count <= MAX_TEXTS:
        raise MediaError("input", f"1 to {MAX_TEXTS:,} texts can be embedded at once, not {count:,}.")


def make_vector(text: str, dimensions: int) -> list[float]:
    """The vector of one text, of length 1 always."""
    values = [0.0] * dimensions
    for mark, weight in _iterate_features(text):
        values[(mark >> 1) % dimensions] += weight if mark & 1 else -weight
    length = math.sqrt(sum(value * value for value in values))
    if length < 1e-9:  # an empty text, or marks that cancel each other
        values = [0.0] * dimensions
        values[_hash_text(text) % dimensions] = 1.0
        return values
    return [value / length for value in values]


def _iterate_features(text: str) -> Iterator[tuple[int, float]]:
    """What is in a text, as hashes with their weights; the tenth time that a word comes up adds little."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    words = _WORD.findall(folded)
    for word, count in Counter(words).items():
        often = 1 + math.log(count)
        for mark, weight in _list_word_features(word):
            yield mark, weight * often
    meaning = [get_stem(word) for word in words if word not in STOP_WORDS]
    for pair, count in Counter(pairwise(meaning)).items():
        yield _hash_text(" ".join(pair)), PAIR_WEIGHT * (1 + math.log(count))
    if not words:
        for sign, count in Counter(folded.split()).items():
            yield _hash_text(sign), 1 + math.log(count)


@lru_cache(maxsize=20_000)
def _list_word_features(word: str) -> tuple[tuple[int, float], ...]:
    """The word without its ending, and its parts of three to five letters (of two in scripts that need few letters)."""
    if word in STOP_WORDS:
        return ((_hash_text(word), STOP_WORD_WEIGHT),)
    parts = list(_iterate_word_parts(word[:MAX_WORD_LENGTH]))
    share = PARTS_WEIGHT / math.sqrt(len(parts))
    return ((_hash_text(get_stem(word)), 1.0), *((_hash_text(f"#{part}"), share) for part in parts))


def _iterate_word_parts(word: str) -> Iterator[str]:
    framed = f"<{word}>"
    for length in (3, 4, 5) if word.isascii() else (1, 2, 3, 4):
        for start in range(max(1, len(framed) - length + 1)):
            yield framed[start : start + length]


def _hash_text(text: str) -> int:
    """Mixed once more: the last bits of crc32 alone are those of the last letters."""
    mixed = crc32(text.encode("utf-8", "surrogatepass")) * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF
    return mixed >> 24
