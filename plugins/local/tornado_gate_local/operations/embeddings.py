"""Embeddings: vectors by hashing, similar for texts that share words. See `tornado_gate_local.vectors` for their limits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from tornado_gate.types import Call, EmbeddingRequest, EmbeddingResult, StreamEvent, Usage
from tornado_gate_local.errors import InvalidArgument
from tornado_gate_local.operations.work import OperationWork, drop_unknown, make_field_error
from tornado_gate_local.vectors import DEFAULT_DIMENSIONS, EmbeddingVectors, check_arguments, embed_in_worker
from tornado_gate_local.words import count_tokens

FIELDS = {"input": "inputs"}
SLICE_TOKENS = 10_000  # converted to text within a few milliseconds
SLICE_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class EmbeddingWork(OperationWork):
    call: Call
    request: EmbeddingRequest
    dimensions: int

    async def events(self) -> AsyncIterator[StreamEvent]:
        """The vectors and the usage as one event. Raises InvalidField."""
        texts = [await convert_to_text(one) for one in self.request.inputs]
        try:
            vectors = await embed_in_worker(texts, self.dimensions)
        except InvalidArgument as error:
            raise make_field_error(self.request, error, FIELDS) from None
        yield EmbeddingResult(
            vectors=await _split_vectors(vectors),
            model=self.call.target.upstream_model,
            usage=Usage(input_tokens=_count_tokens(self.request, vectors)),
        )


def prepare(call: Call, request: EmbeddingRequest) -> EmbeddingWork:
    """Raises InvalidField for an unsupported number of inputs or of dimensions."""
    dimensions = DEFAULT_DIMENSIONS if request.dimensions is None else request.dimensions
    try:
        check_arguments(len(request.inputs), dimensions)
    except InvalidArgument as error:
        raise make_field_error(request, error, FIELDS) from None
    for ours in ("task", "title"):
        if getattr(request, ours) is not None:
            call.drop_field(request.field_name(ours))
    drop_unknown(call, request)
    return EmbeddingWork(call, request, dimensions)


async def convert_to_text(given: str | tuple[int, ...]) -> str:
    """A text unchanged. Token ids as words of their own, because their tokenizer is unknown.

    Equal token lists have equal vectors, lists that share tokens have similar ones; none is similar to the text that
    it encodes.
    """
    if isinstance(given, str):
        return given
    pieces = []
    for start in range(0, len(given), SLICE_TOKENS):
        pieces.append(" ".join(map(str, given[start : start + SLICE_TOKENS])))
        await asyncio.sleep(0)
    return " ".join(pieces)


async def _split_vectors(vectors: EmbeddingVectors) -> tuple[bytes, ...]:
    """Each vector on its own; gives control to the event loop between slices."""
    step = max(1, SLICE_BYTES // (4 * vectors.dimensions))
    parts: list[bytes] = []
    for start in range(0, len(vectors), step):
        parts += [vectors.get_packed(number) for number in range(start, min(start + step, len(vectors)))]
        await asyncio.sleep(0)
    return tuple(parts)


def _count_tokens(request: EmbeddingRequest, vectors: EmbeddingVectors) -> int:
    """By the rule of `count_tokens` for texts; an input of token ids counts its length."""
    given = [len(one) for one in request.inputs if not isinstance(one, str)]
    if not given:
        return vectors.tokens
    return sum(given) + count_tokens(one for one in request.inputs if isinstance(one, str))
