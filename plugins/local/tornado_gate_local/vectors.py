"""Text vectors by feature hashing: words, word pairs and word parts, each added to or subtracted from one dimension.

Texts are similar when they share words or spelling. Synonyms (car, automobile) and translations are not similar.
Vectors have length 1, so that the dot product of two is their similarity. The same text gives the same vector on
every machine; vectors of different `dimensions` cannot be compared.
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
from tornado_gate_local.errors import InvalidArgument
from tornado_gate_local.words import STOP_WORDS, count_tokens, get_stem
from tornado_gate_local.workers import POOL, WorkerPool

DEFAULT_DIMENSIONS = 256
MAX_DIMENSIONS = 4_096
MAX_TEXTS = 2_048
MAX_CHARACTERS_IN_LOOP = 4_000  # characters and numbers that take as long in the event loop as a chat request

PAIR_WEIGHT = 0.6  # of two neighbouring words; a word has 1
PARTS_WEIGHT = 0.8  # of all parts of a word together
STOP_WORD_WEIGHT = 0.12  # of a word that occurs in almost every text
MAX_WORD_LENGTH = 40  # letters of a word that are split into parts
MAX_CACHED_LENGTH = 100  # letters of a word whose features are cached

_WORD = re.compile(r"\w+")


class EmbeddingVectors(Value, frozen=True, kw_only=True):
    """`data` is the vectors one after another, each `dimensions` little-endian 32-bit floats; `tokens` counts all texts."""

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
        """The vector for `encoding_format: base64`."""
        return b64encode(self.get_packed(number)).decode("ascii")


async def embed_in_worker(
    texts: Sequence[str], dimensions: int = DEFAULT_DIMENSIONS, pool: WorkerPool = POOL
) -> EmbeddingVectors:
    """`embed` without blocking the event loop: large inputs go to a worker process. Raises as `embed` and `WorkerPool.run`."""
    if sum(map(len, texts)) + len(texts) * dimensions <= MAX_CHARACTERS_IN_LOOP:
        return embed(texts, dimensions)
    return await pool.run(embed, tuple(texts), dimensions)


def embed(texts: Sequence[str], dimensions: int = DEFAULT_DIMENSIONS) -> EmbeddingVectors:
    """One vector for each text. Raises InvalidArgument for "dimensions" (1 to 4,096) and "input" (1 to 2,048 texts)."""
    check_arguments(len(texts), dimensions)
    form = struct.Struct(f"<{dimensions}f")
    data = b"".join(form.pack(*make_vector(text, dimensions)) for text in texts)
    return EmbeddingVectors(data=data, dimensions=dimensions, tokens=count_tokens(texts))


def check_arguments(count: int, dimensions: int) -> None:
    """Raises InvalidArgument for "dimensions", and for "input" when `count` is 0 or too large."""
    if not 1 <= dimensions <= MAX_DIMENSIONS:
        raise InvalidArgument(
            "dimensions", f"The number of dimensions must be 1 to {MAX_DIMENSIONS:,}, not {dimensions}."
        )
    if not 1 <= count <= MAX_TEXTS:
        raise InvalidArgument("input", f"A request must have 1 to {MAX_TEXTS:,} texts, not {count:,}.")


def make_vector(text: str, dimensions: int) -> list[float]:
    """The vector of one text; its length is always 1."""
    values = [0.0] * dimensions
    for mark, weight in _iterate_features(text):
        values[(mark >> 1) % dimensions] += weight if mark & 1 else -weight
    length = math.sqrt(sum(value * value for value in values))
    if length < 1e-9:  # an empty text, or features that cancel each other
        values = [0.0] * dimensions
        values[_hash_text(text) % dimensions] = 1.0
        return values
    return [value / length for value in values]


def _iterate_features(text: str) -> Iterator[tuple[int, float]]:
    """The features of a text as hashes with weights; the weight grows with the logarithm of the count."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    words = _WORD.findall(folded)
    for word, count in Counter(words).items():
        often = 1 + math.log(count)
        list_features = _list_word_features if len(word) <= MAX_CACHED_LENGTH else _list_word_features.__wrapped__
        for mark, weight in list_features(word):
            yield mark, weight * often
    meaning = [get_stem(word) for word in words if word not in STOP_WORDS]
    for pair, count in Counter(pairwise(meaning)).items():
        yield _hash_text(" ".join(pair)), PAIR_WEIGHT * (1 + math.log(count))
    if not words:
        for sign, count in Counter(folded.split()).items():
            yield _hash_text(sign), 1 + math.log(count)


@lru_cache(maxsize=20_000)
def _list_word_features(word: str) -> tuple[tuple[int, float], ...]:
    """The stem of a word, and its parts of three to five letters (one to four letters outside ASCII)."""
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
    """A 40-bit hash. crc32 alone is mixed once more, because its last bits depend on the last letters only."""
    mixed = crc32(text.encode("utf-8", "surrogatepass")) * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF
    return mixed >> 24
