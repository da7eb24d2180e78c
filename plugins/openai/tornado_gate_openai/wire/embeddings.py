"""OpenAI's embeddings API: parsing and rendering of requests and responses. Validation is the format plugin's task.

The server half (`parse_request`, `render_response`) is for the format plugin; the client half (`render_request`, and
`parse_response` or, for responses of any length, `read_response`) is for providers with this format; `find_usage` reads
the usage of responses that are forwarded verbatim.

Source: openai-python 3.52, types/embedding_create_params.py, types/create_embedding_response.py and, for vectors in base64,
resources/embeddings.py.
"""

from __future__ import annotations

import asyncio
import re
from array import array
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

from tornado_gate.codec.vectors import from_base64, to_base64, to_floats
from tornado_gate.errors import UpstreamError
from tornado_gate.types import Call, EmbeddingRequest, EmbeddingResult, UpstreamResponse, Usage, Vector
from tornado_gate.types.wire import parse_json
from tornado_gate.wire.schemas import is_array_of_objects, wrong_format_error
from tornado_gate_openai.wire import formats
from tornado_gate_openai.wire.chat.errors import find_error
from tornado_gate_openai.wire.chat.parts import drop_none, select_unknown
from tornado_gate_openai.wire.chat.usage import parse_usage as parse_chat_usage

WIRE_FORMAT: Final = formats.OPENAI_EMBEDDINGS
FIELD_NAMES: Final[Mapping[str, str]] = {"inputs": "input"}

NUMBERS_PER_SLICE: Final = 8192
"""Numbers rendered between two turns of the event loop: one or two milliseconds of work."""
BYTES_PER_SLICE: Final = 64 * 1024
"""Bytes parsed between two turns of the event loop: one or two milliseconds of work."""

_KNOWN_MEMBERS: Final = ("model", "input", "encoding_format", "dimensions", "user")
_ENTRY_PATTERN: Final = re.compile(rb'\{[^{}]{0,200}?"embedding"\s*+:\s*+(?:\[[^{}\]]*+\]|"[^"{}]*+")[^{}]*+\}')
_USAGE_PATTERN: Final = re.compile(rb'"usage"\s*+:\s*+(\{[^{}]*+(?:\{[^{}]*+\}[^{}]*+)*\})')

EmbeddingInput = str | tuple[int, ...]


def read_inputs(value: Any) -> tuple[EmbeddingInput, ...]:
    """Return the inputs of a validated ``input``: a string, an array of strings, a token array, or an array of token arrays."""
    if isinstance(value, str):
        return (value,)
    if value and isinstance(value[0], int):
        return (tuple(value),)
    return tuple(piece if isinstance(piece, str) else tuple(piece) for piece in value)


def parse_request(body: Mapping[str, Any], *, model: str) -> EmbeddingRequest:
    """Return the common request for a validated body. The format plugin keeps ``encoding_format`` for the response."""
    return EmbeddingRequest(
        model=model,
        wire_format=WIRE_FORMAT,
        inputs=read_inputs(body["input"]),
        dimensions=body.get("dimensions"),
        user=body.get("user"),
        extra={name: value for name, value in select_unknown(body, *_KNOWN_MEMBERS).items() if value is not None},
        names=FIELD_NAMES,
    )


def render_request(call: Call, request: EmbeddingRequest) -> dict[str, Any]:
    """Return the body for an upstream. It always requests base64, which needs a third of the bytes and is faster to parse.

    ``task``, ``title`` and unknown fields of another wire format are not supported and are dropped.
    """
    body = drop_none(
        model=call.target.upstream_model,
        input=_render_inputs(request.inputs),
        encoding_format="base64",
        dimensions=request.dimensions,
        user=request.user,
    )
    for name in ("task", "title"):
        if getattr(request, name) is not None:
            call.drop_field(request.field_name(name))
    for name, value in request.extra.items():
        if request.wire_format == WIRE_FORMAT:
            body.setdefault(name, value)
        else:
            call.drop_field(name)
    return body


def _render_inputs(inputs: Sequence[EmbeddingInput]) -> Any:
    rendered = [piece if isinstance(piece, str) else list(piece) for piece in inputs]
    return rendered[0] if len(rendered) == 1 else rendered


def parse_response(body: Any, *, count: int | None = None) -> EmbeddingResult:
    """Parse a whole response. `count` is the expected number of vectors, or None if unknown.

    Takes a few milliseconds per megabyte; use `read_response` for responses that may be long. Raises the error in the body
    if there is one, and UpstreamError if a vector is missing.
    """
    if (error := find_error(body)) is not None:
        raise error
    if not isinstance(body, Mapping) or not is_array_of_objects(body.get("data")):
        raise wrong_format_error()
    return _make_result(
        body, [(entry.get("index"), _parse_vector(entry.get("embedding"))) for entry in body["data"]], count
    )


async def read_response(incoming: UpstreamResponse, *, count: int | None = None) -> EmbeddingResult:
    """Parse a response entry by entry while it arrives, so that a response of 30 MB does not block the event loop.

    Raises the same errors as `parse_response`, and UpstreamError if the body is not JSON.
    """
    vectors: list[tuple[Any, Vector]] = []
    envelope: list[bytes] = []
    pending: list[bytes] = []
    work = 0
    async for chunk in incoming.chunks:
        pending.append(chunk)
        if b"}" not in chunk:
            continue
        text, position = b"".join(pending), 0
        for match in _ENTRY_PATTERN.finditer(text):
            entry = parse_json(match[0], incoming.provider)
            vectors.append((entry.get("index"), _parse_vector(entry.get("embedding"))))
            envelope += (text[position : match.start()], b"0")
            position = match.end()
            work += len(match[0])
            if work >= BYTES_PER_SLICE:
                work = 0
                await asyncio.sleep(0)
        pending = [text[position:]]
    body = parse_json(b"".join([*envelope, *pending]), incoming.provider)
    if not vectors:
        return parse_response(body, count=count)
    if not isinstance(body, Mapping) or body.get("data") != [0] * len(vectors):
        raise wrong_format_error()
    return _make_result(body, vectors, count)


def _make_result(body: Mapping[str, Any], vectors: list[tuple[Any, Vector]], count: int | None) -> EmbeddingResult:
    model = body.get("model")
    return EmbeddingResult(
        vectors=_order_vectors(vectors, count),
        model=model if isinstance(model, str) else "",
        usage=parse_usage(body.get("usage")),
    )


def _order_vectors(vectors: list[tuple[Any, Vector]], count: int | None) -> tuple[Vector, ...]:
    """Return the vectors ordered by index, or in order of arrival if no entry has an index."""
    if count is not None and len(vectors) != count:
        raise UpstreamError(f"The upstream returned {len(vectors)} vectors for {count} inputs. Retry the request.")
    if all(index is None for index, _ in vectors):
        return tuple(vector for _, vector in vectors)
    by_index = {index: vector for index, vector in vectors if type(index) is int}
    if len(by_index) != len(vectors) or any(index not in by_index for index in range(len(vectors))):
        raise UpstreamError("The upstream returned vectors whose indexes are not 0, 1, 2, …. Retry the request.")
    return tuple(by_index[index] for index in range(len(vectors)))


def _parse_vector(value: Any) -> Vector:
    """Return one entry's vector, from base64 or numbers. Numbers become 64-bit floats: an eighth of a list's memory."""
    if isinstance(value, str):
        return from_base64(value)
    if not isinstance(value, list) or not value:
        raise UpstreamError("The upstream returned an embedding entry without a vector. Retry the request.")
    try:
        return array("d", value)
    except (TypeError, OverflowError) as error:
        raise UpstreamError("The upstream returned a vector with a value that is not a number.") from error


def parse_usage(value: Any) -> Usage | None:
    """Return the usage that an upstream reports; some report only the total. None if there is no token count."""
    usage = parse_chat_usage(value)
    if usage is None and isinstance(value, Mapping) and type(value.get("total_tokens")) is int:
        return Usage(input_tokens=value["total_tokens"])
    return usage


def render_usage(usage: Usage | None) -> dict[str, Any]:
    """Return the vendor's usage object; both counts are always present."""
    known = usage or Usage()
    return {
        "prompt_tokens": known.input_tokens or 0,
        "total_tokens": known.extra.get("total_tokens", known.total_tokens or 0),
    }


def find_usage(beginning: bytes, end: bytes) -> Usage | None:
    """Return the usage from the first and last bytes of a response; vendors put it at either end. None without usage."""
    for piece in (end, beginning):
        for match in _USAGE_PATTERN.finditer(piece):
            try:
                usage = parse_usage(orjson.loads(match[1]))
            except orjson.JSONDecodeError:
                continue
            if usage is not None:
                return usage
    return None


def render_entry(index: int, vector: Vector, encoding: str) -> bytes:
    """Return the JSON text of one entry of ``data``; `encoding` is "float" or "base64"."""
    written = to_base64(vector) if encoding == "base64" else to_floats(vector)
    return orjson.dumps({"object": "embedding", "index": index, "embedding": written})


async def render_response(result: EmbeddingResult, *, model: str, encoding: str) -> AsyncIterator[bytes]:
    """Yield the JSON text of a whole response: in one piece if small, else in slices with event loop turns in between."""
    pieces = [b'{"object":"list","data":[']
    for more in _iterate_slices(result.vectors, encoding):
        if len(pieces) > 1:
            yield b"".join(pieces)
            pieces.clear()
            await asyncio.sleep(0)
        pieces += more
    end = orjson.dumps({"model": model, "usage": render_usage(result.usage)})
    yield b"".join([*pieces, b"],", end[1:]])


def _iterate_slices(vectors: Sequence[Vector], encoding: str) -> Iterator[list[bytes]]:
    """Yield the rendered entries in groups of about `NUMBERS_PER_SLICE` numbers."""
    group: list[bytes] = []
    numbers = 0
    for index, vector in enumerate(vectors):
        group += (b",", render_entry(index, vector, encoding)) if index else (render_entry(index, vector, encoding),)
        numbers += len(vector) // 4 if isinstance(vector, bytes) else len(vector)
        if numbers >= NUMBERS_PER_SLICE:
            yield group
            group, numbers = [], 0
    if group:
        yield group
