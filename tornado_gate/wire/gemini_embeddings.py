"""Gemini's embedContent and batchEmbedContents: what is on the wire, both ways. Pure; bodies have been checked before.

Answers may hold hundreds of thousands of numbers: they are read and written a vector at a time, and others go on in between.

Source: https://ai.google.dev/api/embeddings; google-genai 3.4, models.py (_EmbedContentParametersPrivate_to_mldev,
_EmbedContentResponse_from_mldev) and types.EmbedContentConfig, whose nested form newer upstreams take too.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import orjson

from tornado_gate.codec.vectors import floats_of
from tornado_gate.errors import InvalidField, UpstreamError
from tornado_gate.types import Call, EmbeddingRequest, EmbeddingResult, Meter, Usage, Vector
from tornado_gate.types.wire import parse_json
from tornado_gate.wire import formats
from tornado_gate.wire.gemini_generate import camelised, error_of, parse_usage, spelled
from tornado_gate.wire.gemini_generate.json_values import given, items, mapping, rest
from tornado_gate.wire.schemas import no_answer

WIRE_FORMAT: Final = formats.GEMINI_EMBEDDINGS
MOST_AT_ONCE: Final = 100
"""Contents in one request; the vendor refuses more."""

_FIELDS: Final = {"dimensions": "outputDimensionality", "task": "taskType", "title": "title"}
_NESTED: Final = "embedContentConfig"
_FIRST: Final = "requests.0."
"""Before the names of a batch's unknown members, so that they are told where they stand."""
_ENTRY: Final = ("model", "content", _NESTED, *_FIELDS.values())
_VALUES: Final = re.compile(rb'"values"\s*:\s*\[')
_USAGE: Final = re.compile(rb'"usage(?:Metadata|_metadata)"\s*:\s*(?=\{)')
_LONGEST_USAGE: Final = 4096
_PIECE: Final = 64 * 1024


def parse_embedding_request(call: Call, body: Mapping[str, Any], *, model: str) -> EmbeddingRequest:
    """The common request in a body of either method. Raises InvalidField for what is no text, and for mixed dimensions."""
    wire = camelised(dict(body))
    batch = "requests" in wire
    entries = [_Entry(value, f"requests.{n}") for n, value in enumerate(wire["requests"])] if batch else [_Entry(wire)]
    told = _Told(call, body)
    for name in rest(wire, "requests", "model") if batch else ():
        told.lose(name)
    fields = {name: told.common(name, entries) for name in _FIELDS}
    inputs = tuple(told.text(entry) for entry in entries)
    names = {name: entries[0].path_of(name) for name in _FIELDS} | {"inputs": "requests" if batch else "content"}
    return EmbeddingRequest(
        model=model,
        wire_format=WIRE_FORMAT,
        inputs=inputs,
        **fields,
        extra=told.extra(entries),
        names={name: spelled(body, path) for name, path in names.items()},
    )


class _Entry:
    """One content with its settings, which stand beside it or in ``embedContentConfig``."""

    def __init__(self, value: Mapping[str, Any], path: str = "") -> None:
        self.value = value
        self.config = mapping(value.get(_NESTED))
        self.path = path

    def at(self, path: str) -> str:
        return f"{self.path}.{path}" if self.path else path

    def get(self, name: str) -> Any:
        value = self.value.get(_FIELDS[name])
        return self.config.get(_FIELDS[name]) if value is None else value

    def path_of(self, name: str) -> str:
        nested = self.value.get(_FIELDS[name]) is None and self.config.get(_FIELDS[name]) is not None
        return self.at(f"{_NESTED}.{_FIELDS[name]}" if nested else _FIELDS[name])

    def unknown(self) -> dict[str, Any]:
        inner = rest(self.config, *_FIELDS.values())
        return rest(self.value, *_ENTRY) | ({_NESTED: inner} if inner else {})


class _Told:
    """Tells of what one common request cannot hold, in the caller's words."""

    def __init__(self, call: Call, body: Mapping[str, Any]) -> None:
        self._call = call
        self._body = body

    def lose(self, path: str) -> None:
        self._call.lose(spelled(self._body, path))

    def common(self, name: str, entries: Sequence[_Entry]) -> Any:
        """What all contents say of a field. Different dimensions are an error, anything else is lost where it stands."""
        value = entries[0].get(name)
        for entry in entries:
            if entry.get(name) == value:
                continue
            if name == "dimensions":
                path = spelled(self._body, entry.path_of(name))
                raise InvalidField(path, f"'{path}' must be the same in all requests of a batch for this model.")
            for other in entries:
                if other.get(name) is not None:
                    self.lose(other.path_of(name))
            return None
        return value

    def extra(self, entries: Sequence[_Entry]) -> dict[str, Any]:
        """The unknown members by their paths in the first content, when all contents have the same."""
        unknown = [entry.unknown() for entry in entries]
        if all(other == unknown[0] for other in unknown):
            return {spelled(self._body, entries[0].at(name)): value for name, value in unknown[0].items()}
        for entry, members in zip(entries, unknown, strict=True):
            for name in members:
                self.lose(entry.at(name))
        return {}

    def text(self, entry: _Entry) -> str:
        """The texts of a content, joined."""
        texts: list[str] = []
        for place, part in enumerate(items(mapping(entry.value.get("content")).get("parts"))):
            text = part.get("text")
            if not isinstance(text, str):
                path = entry.at(f"content.parts.{place}")
                raise InvalidField(path, f"'{path}' must hold a text: this model embeds nothing else.")
            texts.append(text)
        joined = "\n".join(texts)
        if not joined:
            path = entry.at("content.parts")
            raise InvalidField(path, f"'{path}' must hold a text that is not empty.")
        return joined


def render_embedding_request(call: Call, request: EmbeddingRequest, *, model: str) -> dict[str, Any]:
    """The body of batchEmbedContents; `model` is the resource, which each of its requests must name.

    Raises InvalidField for tokens, which the vendor does not take.
    """
    own = request.wire_format == WIRE_FORMAT
    if any(not isinstance(text, str) for text in request.inputs):
        name = request.names.get("inputs", "input")
        raise InvalidField(name, f"'{name}' must be text: the model '{call.model}' takes no tokens.")
    for name in ("user", *(() if own else ("task",))):
        if getattr(request, name) is not None:
            call.lose(request.field_name(name))
    settings = given(
        taskType=request.task if own else None, title=request.title, outputDimensionality=request.dimensions
    )
    for name, value in request.extra.items():
        if own and value is not None:
            settings |= camelised({name.removeprefix(_FIRST): value})
        elif value is not None:
            call.lose(name)
    return {
        "requests": [{"model": model, "content": {"parts": [{"text": text}]}, **settings} for text in request.inputs]
    }


async def parse_embeddings(raw: bytes, expected: int) -> EmbeddingResult:
    """The vectors of a whole answer of either method. Raises the upstream's error, or UpstreamError for another number."""
    vectors: list[Vector] = []
    pieces: list[bytes] = []
    done = 0
    for found in _VALUES.finditer(raw):
        end = raw.find(b"]", found.end()) + 1
        vectors.append(_numbers(raw[found.end() - 1 : end]))
        pieces += [raw[done : found.end() - 1], b"%d" % (len(vectors) - 1)]
        done = end
        await asyncio.sleep(0)
    body = parse_json(b"".join([*pieces, raw[done:]]))
    if (failure := error_of(body)) is not None:
        raise failure
    body = mapping(camelised(body))
    entries = items(body.get("embeddings")) or [mapping(body.get("embedding"))]
    places = [entry.get("values") for entry in entries]
    if places != list(range(len(vectors))) or len(vectors) != expected:
        raise UpstreamError(f"The upstream sent {len(vectors)} vectors for {expected} inputs.")
    return EmbeddingResult(vectors=tuple(vectors), usage=parse_usage(body.get("usageMetadata")))


def _numbers(text: bytes) -> list[float]:
    numbers: list[float] = parse_json(text)
    if not numbers or not {float, int} >= set(map(type, numbers)):
        raise UpstreamError("The upstream sent a vector that does not hold numbers.")
    return numbers


async def render_embeddings(result: EmbeddingResult, *, batch: bool) -> AsyncIterator[bytes]:
    """The answer of either method, in pieces."""
    if not batch:
        if len(result.vectors) != 1:
            raise UpstreamError(f"The upstream sent {len(result.vectors)} vectors for one input.")
        yield b'{"embedding":' + _rendered(result.vectors[0]) + _usage(result.usage) + b"}"
        return
    piece = bytearray(b'{"embeddings":[')
    for number, vector in enumerate(result.vectors):
        piece += (b"," if number else b"") + _rendered(vector)
        if len(piece) > _PIECE:
            yield bytes(piece)
            piece.clear()
        await asyncio.sleep(0)
    yield bytes(piece) + b"]" + _usage(result.usage) + b"}"


def _rendered(vector: Vector) -> bytes:
    return b'{"values":' + orjson.dumps(floats_of(vector)) + b"}"


def _usage(usage: Usage | None) -> bytes:
    """``usageMetadata``, when the upstream counted anything. There is no output to count."""
    if usage is None or usage.input_tokens is None:
        return b""
    counted = {"promptTokenCount": usage.input_tokens, "totalTokenCount": usage.input_tokens}
    details = usage.extra.get("promptTokensDetails")
    return b',"usageMetadata":' + orjson.dumps(counted | ({"promptTokensDetails": details} if details else {}))


def note_embeddings(meter: Meter, raw: bytes) -> None:
    """Note the usage of a whole answer that passes as it came. Raises an error for what is none.

    An answer is not parsed, only looked at: it may hold megabytes of numbers.
    """
    if b'"values"' not in raw or not raw.rstrip().endswith(b"}"):
        _raise_for(raw)
    found = _USAGE.match(raw, max(0, raw.rfind(b'"usage')))
    if found is None:
        return
    text = raw[found.end() : found.end() + _LONGEST_USAGE].decode("utf-8", "replace")
    with suppress(json.JSONDecodeError):  # longer than any that the vendor sends
        meter.usage = parse_usage(camelised(json.JSONDecoder().raw_decode(text)[0])) or meter.usage


def _raise_for(raw: bytes) -> None:
    raise error_of(parse_json(raw)) or no_answer()
