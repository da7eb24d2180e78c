"""Gemini's embedContent and batchEmbedContents wire formats, in both directions. Pure; bodies are already validated.

Responses may have hundreds of thousands of numbers: each vector is parsed and rendered separately, so that the event loop
serves other requests in between.

Source: https://ai.google.dev/api/embeddings; google-genai 3.4, models.py (_EmbedContentParametersPrivate_to_mldev,
_EmbedContentResponse_from_mldev) and types.EmbedContentConfig, whose nested form newer upstreams accept too.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import orjson

from tornado_gate.codec.vectors import to_floats
from tornado_gate.errors import InvalidField, UpstreamError
from tornado_gate.types import Call, EmbeddingRequest, EmbeddingResult, Meter, Usage, Vector
from tornado_gate.types.wire import parse_json
from tornado_gate.wire.schemas import wrong_format_error
from tornado_gate_gemini.wire import formats
from tornado_gate_gemini.wire.generate import convert_to_camel_case, find_error, parse_usage, restore_spelling
from tornado_gate_gemini.wire.generate.json_values import drop_none, read_object, read_objects, select_unknown

WIRE_FORMAT: Final = formats.GEMINI_EMBEDDINGS
MAX_BATCH_SIZE: Final = 100
"""Contents per request; the vendor rejects more."""

_MEMBER_NAMES: Final = {"dimensions": "outputDimensionality", "task": "taskType", "title": "title"}
_CONFIG_MEMBER: Final = "embedContentConfig"
_FIRST_REQUEST: Final = "requests.0."
"""Path prefix of the unknown members of a batch, for reporting."""
_ENTRY_MEMBERS: Final = ("model", "content", _CONFIG_MEMBER, *_MEMBER_NAMES.values())
_VALUES: Final = re.compile(rb'"values"\s*:\s*\[')
_USAGE: Final = re.compile(rb'"usage(?:Metadata|_metadata)"\s*:\s*(?=\{)')
_MAX_USAGE_LENGTH: Final = 4096
_PIECE_BYTES: Final = 64 * 1024


def parse_embedding_request(call: Call, body: Mapping[str, Any], *, model: str) -> EmbeddingRequest:
    """The common request of a body of either method. Raises InvalidField for other content than text, and mixed dimensions."""
    wire = convert_to_camel_case(dict(body))
    batch = "requests" in wire
    entries = (
        [_EmbedEntry(value, f"requests.{n}") for n, value in enumerate(wire["requests"])]
        if batch
        else [_EmbedEntry(wire)]
    )
    merger = _EntryMerger(call, body)
    for name in select_unknown(wire, "requests", "model") if batch else ():
        merger.drop_field(name)
    fields = {name: merger.merge_field(name, entries) for name in _MEMBER_NAMES}
    inputs = tuple(merger.join_text(entry) for entry in entries)
    names = {name: entries[0].get_field_path(name) for name in _MEMBER_NAMES} | {
        "inputs": "requests" if batch else "content"
    }
    return EmbeddingRequest(
        model=model,
        wire_format=WIRE_FORMAT,
        inputs=inputs,
        **fields,
        extra=merger.merge_extra(entries),
        names={name: restore_spelling(body, path) for name, path in names.items()},
    )


class _EmbedEntry:
    """One content with its settings, which are beside it or in ``embedContentConfig``."""

    def __init__(self, value: Mapping[str, Any], path: str = "") -> None:
        self.value = value
        self.config = read_object(value.get(_CONFIG_MEMBER))
        self.path = path

    def join_path(self, path: str) -> str:
        return f"{self.path}.{path}" if self.path else path

    def get(self, name: str) -> Any:
        value = self.value.get(_MEMBER_NAMES[name])
        return self.config.get(_MEMBER_NAMES[name]) if value is None else value

    def get_field_path(self, name: str) -> str:
        nested = self.value.get(_MEMBER_NAMES[name]) is None and self.config.get(_MEMBER_NAMES[name]) is not None
        return self.join_path(f"{_CONFIG_MEMBER}.{_MEMBER_NAMES[name]}" if nested else _MEMBER_NAMES[name])

    def select_unknown(self) -> dict[str, Any]:
        inner = select_unknown(self.config, *_MEMBER_NAMES.values())
        return select_unknown(self.value, *_ENTRY_MEMBERS) | ({_CONFIG_MEMBER: inner} if inner else {})


class _EntryMerger:
    """The merger of batch entries into one common request. It reports fields that it cannot express, by the caller's paths."""

    def __init__(self, call: Call, body: Mapping[str, Any]) -> None:
        self._call = call
        self._body = body

    def drop_field(self, path: str) -> None:
        self._call.drop_field(restore_spelling(self._body, path))

    def merge_field(self, name: str, entries: Sequence[_EmbedEntry]) -> Any:
        """The value shared by all entries. Different dimensions raise InvalidField; other differences are reported as dropped."""
        value = entries[0].get(name)
        for entry in entries:
            if entry.get(name) == value:
                continue
            if name == "dimensions":
                path = restore_spelling(self._body, entry.get_field_path(name))
                raise InvalidField(
                    path, f"'{path}' must have the same value in all entries of the batch for this model."
                )
            for other in entries:
                if other.get(name) is not None:
                    self.drop_field(other.get_field_path(name))
            return None
        return value

    def merge_extra(self, entries: Sequence[_EmbedEntry]) -> dict[str, Any]:
        """The unknown members that all entries share, by their path in the first entry."""
        unknown = [entry.select_unknown() for entry in entries]
        if all(other == unknown[0] for other in unknown):
            return {
                restore_spelling(self._body, entries[0].join_path(name)): value for name, value in unknown[0].items()
            }
        for entry, members in zip(entries, unknown, strict=True):
            for name in members:
                self.drop_field(entry.join_path(name))
        return {}

    def join_text(self, entry: _EmbedEntry) -> str:
        """The texts of a content, joined. Raises InvalidField for other parts and for empty text."""
        texts: list[str] = []
        for index, part in enumerate(read_objects(read_object(entry.value.get("content")).get("parts"))):
            text = part.get("text")
            if not isinstance(text, str):
                path = entry.join_path(f"content.parts.{index}")
                raise InvalidField(path, f"'{path}' must contain text: this model embeds only text.")
            texts.append(text)
        joined = "\n".join(texts)
        if not joined:
            path = entry.join_path("content.parts")
            raise InvalidField(path, f"'{path}' must contain text that is not empty.")
        return joined


def render_embedding_request(call: Call, request: EmbeddingRequest, *, model: str) -> dict[str, Any]:
    """The body of batchEmbedContents. `model` is the resource name, which each of its requests requires.

    Raises InvalidField for token arrays, which the vendor does not support.
    """
    own = request.wire_format == WIRE_FORMAT
    if any(not isinstance(text, str) for text in request.inputs):
        name = request.names.get("inputs", "input")
        raise InvalidField(name, f"'{name}' must be text: the model '{call.model}' does not accept token arrays.")
    for name in ("user", *(() if own else ("task",))):
        if getattr(request, name) is not None:
            call.drop_field(request.field_name(name))
    settings = drop_none(
        taskType=request.task if own else None, title=request.title, outputDimensionality=request.dimensions
    )
    for name, value in request.extra.items():
        if own and value is not None:
            settings |= convert_to_camel_case({name.removeprefix(_FIRST_REQUEST): value})
        elif value is not None:
            call.drop_field(name)
    return {
        "requests": [{"model": model, "content": {"parts": [{"text": text}]}, **settings} for text in request.inputs]
    }


async def parse_embeddings(raw: bytes, expected: int) -> EmbeddingResult:
    """The vectors of a whole response of either method.

    Raises the upstream's error, and UpstreamError when the number of vectors is not `expected`.
    """
    vectors: list[Vector] = []
    pieces: list[bytes] = []
    done = 0
    for match in _VALUES.finditer(raw):
        end = raw.find(b"]", match.end()) + 1
        vectors.append(_parse_numbers(raw[match.end() - 1 : end]))
        pieces += [raw[done : match.end() - 1], b"%d" % (len(vectors) - 1)]
        done = end
        await asyncio.sleep(0)
    body = parse_json(b"".join([*pieces, raw[done:]]))
    if (failure := find_error(body)) is not None:
        raise failure
    body = read_object(convert_to_camel_case(body))
    entries = read_objects(body.get("embeddings")) or [read_object(body.get("embedding"))]
    places = [entry.get("values") for entry in entries]
    if places != list(range(len(vectors))) or len(vectors) != expected:
        raise UpstreamError(f"The upstream sent {len(vectors)} vectors for {expected} inputs.")
    return EmbeddingResult(vectors=tuple(vectors), usage=parse_usage(body.get("usageMetadata")))


def _parse_numbers(text: bytes) -> list[float]:
    numbers: list[float] = parse_json(text)
    if not numbers or not {float, int} >= set(map(type, numbers)):
        raise UpstreamError("The upstream sent an embedding vector that is not an array of numbers. Retry the request.")
    return numbers


async def render_embeddings(result: EmbeddingResult, *, batch: bool) -> AsyncIterator[bytes]:
    """The response of either method, in chunks."""
    if not batch:
        if len(result.vectors) != 1:
            raise UpstreamError(f"The upstream sent {len(result.vectors)} vectors for one input.")
        yield b'{"embedding":' + _render_vector(result.vectors[0]) + _render_usage(result.usage) + b"}"
        return
    piece = bytearray(b'{"embeddings":[')
    for number, vector in enumerate(result.vectors):
        piece += (b"," if number else b"") + _render_vector(vector)
        if len(piece) > _PIECE_BYTES:
            yield bytes(piece)
            piece.clear()
        await asyncio.sleep(0)
    yield bytes(piece) + b"]" + _render_usage(result.usage) + b"}"


def _render_vector(vector: Vector) -> bytes:
    return b'{"values":' + orjson.dumps(to_floats(vector)) + b"}"


def _render_usage(usage: Usage | None) -> bytes:
    """``usageMetadata``, if the upstream reported usage. Embeddings have no output tokens."""
    if usage is None or usage.input_tokens is None:
        return b""
    counted = {"promptTokenCount": usage.input_tokens, "totalTokenCount": usage.input_tokens}
    details = usage.extra.get("promptTokensDetails")
    return b',"usageMetadata":' + orjson.dumps(counted | ({"promptTokensDetails": details} if details else {}))


def note_embeddings(meter: Meter, raw: bytes) -> None:
    """Set the usage of a verbatim response on `meter`. Raises an error for a body without embeddings.

    The body is searched by regex, not parsed: it may have megabytes of numbers.
    """
    if b'"values"' not in raw or not raw.rstrip().endswith(b"}"):
        _raise_error(raw)
    match = _USAGE.match(raw, max(0, raw.rfind(b'"usage')))
    if match is None:
        return
    text = raw[match.end() : match.end() + _MAX_USAGE_LENGTH].decode("utf-8", "replace")
    with suppress(json.JSONDecodeError):  # longer than any the vendor sends
        meter.record_usage(parse_usage(convert_to_camel_case(json.JSONDecoder().raw_decode(text)[0])))


def _raise_error(raw: bytes) -> None:
    raise find_error(parse_json(raw)) or wrong_format_error()
