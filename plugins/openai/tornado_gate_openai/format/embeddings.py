"""The embeddings routes: checks of ``input``, the requests and the responses of both lanes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping
from typing import Any, Final

from tornado_gate import patch_json
from tornado_gate.codec.checks import need_array, raise_invalid
from tornado_gate.codec.fields import MAX_INTEGER, describe_type, format_choices
from tornado_gate.codec.large_json import load_upstream_json
from tornado_gate.codec.value_limits import check_for_upstream
from tornado_gate.errors import UpstreamError
from tornado_gate.streams import stages
from tornado_gate.streams.events import close, read_single_event
from tornado_gate.types import (
    BufferedBody,
    Call,
    EmbeddingRequest,
    EmbeddingResult,
    Reply,
    StreamEvent,
    UpstreamResponse,
    VerbatimRequest,
    WireRequest,
)
from tornado_gate.types.value import Value, replace
from tornado_gate.wire.schemas import is_array_of_objects, wrong_format_error
from tornado_gate_openai.fields.embeddings import ENCODINGS, check_embedding
from tornado_gate_openai.format import paths
from tornado_gate_openai.format.dialect import is_contract_caller
from tornado_gate_openai.format.passing import make_media_verbatim
from tornado_gate_openai.format.replies import JSON_TYPE
from tornado_gate_openai.wire.chat.errors import find_error
from tornado_gate_openai.wire.embeddings import find_usage, parse_request, parse_usage, render_response

ROUTES: Final = paths.EMBEDDING_ROUTES

MAX_TOKENS: Final = 300_000
"""Limit for the tokens of all inputs of a request together."""
TOKENS_PER_SLICE: Final = 50_000
"""Number of tokens that are checked before control returns to the event loop."""

MAX_PARSED_BYTES: Final = 64 * 1024
"""Verbatim responses up to this size are buffered and checked completely; of longer ones only the start and the end."""
SEARCHED_BYTES: Final = 1024
"""Number of bytes at the start and at the end of a longer response that are searched for its usage."""


_CONTRACT_FIELDS: Final = frozenset(("model", "input", "encoding_format", "dimensions"))


class OpenAIEmbeddingState(Value, frozen=True, kw_only=True):
    """Response state: `encoding` of the vectors in the response, "float" or "base64"."""

    encoding: str = "float"


async def check_body(body: Mapping[str, Any]) -> None:
    """Raise InvalidField for the first invalid field."""
    check_embedding(body)
    await _check_input(body["input"], MAX_TOKENS)


def _check_for_upstream(call: Call, body: Mapping[str, Any]) -> None:
    """Raise InvalidField for a value that is wrong for every upstream, or for an encoding that the caller's contract lacks.

    The tokens of the input are not checked.
    """
    check_for_upstream(check_embedding, body)
    encoding = body.get("encoding_format")
    if encoding not in (None, *ENCODINGS) and is_contract_caller(call, body, _CONTRACT_FIELDS):
        raise_invalid("encoding_format", f"must be one of {format_choices(ENCODINGS)}, not '{encoding[:50]}'")


def _is_texts(value: Any) -> bool:
    """Return whether an input is a text or an array of texts, none of them empty."""
    if type(value) is str:
        return bool(value)
    return type(value) is list and set(map(type, value)) == {str} and all(value)


async def _check_input(value: Any, most_tokens: int | None) -> None:
    """Raise InvalidField unless `value` is a text, an array of texts, an array of tokens, or an array of token arrays.

    `most_tokens` is the limit of tokens in `value`, None if the upstream decides.
    """
    if isinstance(value, str):
        if not value:
            raise_invalid("input", "must not be empty")
        return
    if not isinstance(value, list):
        raise_invalid("input", f"must be a string or an array, not {describe_type(value)}")
    if not value:
        raise_invalid("input", "must not be empty")
    kind = type(value[0])
    if kind not in (str, int, list):
        raise_invalid("input.0", f"must be a string, an integer or an array, not {describe_type(value[0])}")
    if kind is int:
        await _check_tokens(value, "input", most_tokens)
        return
    if kind is str and set(map(type, value)) == {str} and all(value):
        return
    left = most_tokens
    for index, piece in enumerate(value):
        if type(piece) is not kind:
            raise_invalid(
                f"input.{index}", f"must be {describe_type(value[0])} like the first item, not {describe_type(piece)}"
            )
        if not piece:
            raise_invalid(f"input.{index}", "must not be empty")
        if kind is list:
            await _check_tokens(piece, f"input.{index}", left)
            left = None if left is None else left - len(piece)


async def _check_tokens(tokens: list[Any], path: str, most: int | None) -> None:
    length = len(need_array(tokens, path))
    if most is not None and length > most:
        raise_invalid("input", f"has more than {MAX_TOKENS} tokens, the limit per request; send several requests")
    for start in range(0, len(tokens), TOKENS_PER_SLICE):
        stretch = tokens[start : start + TOKENS_PER_SLICE]
        if set(map(type, stretch)) != {int} or min(stretch) < 0 or max(stretch) > MAX_INTEGER:
            _refuse_token(stretch, path, start)
        if len(stretch) == TOKENS_PER_SLICE:
            await asyncio.sleep(0)


def _refuse_token(tokens: list[Any], path: str, start: int) -> None:
    """Raise InvalidField for the first invalid token. `start` is the index of the first of `tokens` in the array."""
    for index, token in enumerate(tokens, start):
        if type(token) is not int:
            raise_invalid(f"{path}.{index}", f"must be an integer, not {describe_type(token)}")
        if not 0 <= token <= MAX_INTEGER:
            raise_invalid(f"{path}.{index}", f"must be a token number from 0 to {MAX_INTEGER}, not {token}")


def _add_default_model(call: Call, wire: WireRequest) -> Mapping[str, Any]:
    """Return the body with its model: the path's model, else the body's, else the default model in conf."""
    if wire.route.model == "path" or wire.json.get("model") is None:
        return {**wire.json, "model": wire.path_arguments.get("model", call.model)}
    return wire.json


def parse(call: Call, wire: WireRequest) -> EmbeddingRequest | Awaitable[EmbeddingRequest]:
    """Parse the body into the common request. Raises InvalidField."""
    body = _add_default_model(call, wire)
    if not _is_texts(body.get("input")):
        return _parse_tokens(body)
    check_embedding(body)
    return _parse(body)


async def _parse_tokens(body: Mapping[str, Any]) -> EmbeddingRequest:
    """Return the request of a body whose input may be long arrays of tokens."""
    await check_body(body)
    return _parse(body)


def _parse(body: Mapping[str, Any]) -> EmbeddingRequest:
    request = parse_request(body, model=body["model"])
    return replace(request, reply_state=OpenAIEmbeddingState(encoding=body.get("encoding_format") or "float"))


def reply(call: Call, request: EmbeddingRequest, events: AsyncIterator[StreamEvent]) -> Reply:
    """Return the response. Its `model` is the name that the caller sent."""
    return Reply(content_type=JSON_TYPE, chunks=_render_answer(call, request, events))


async def _render_answer(
    call: Call, request: EmbeddingRequest, events: AsyncIterator[StreamEvent]
) -> AsyncIterator[bytes]:
    try:
        result = await read_single_event(events, EmbeddingResult)
    finally:
        await close(events)
    if len(result.vectors) != len(request.inputs):
        message = f"The upstream sent {len(result.vectors)} vectors for {len(request.inputs)} inputs. Try again."
        raise UpstreamError(message)
    chunks = render_response(result, model=call.model or request.model, encoding=request.reply_state.encoding)
    async for chunk in chunks:
        yield chunk


def forward(call: Call, wire: WireRequest) -> VerbatimRequest | Awaitable[VerbatimRequest]:
    """Return the request unchanged, except that `model` in the body is set to the path's model when the path has one."""
    body = _add_default_model(call, wire)
    _check_for_upstream(call, body)
    return _make_verbatim(wire, body) if _is_texts(body["input"]) else _forward_tokens(wire, body)


async def _forward_tokens(wire: WireRequest, body: Mapping[str, Any]) -> VerbatimRequest:
    """Return the request of a body whose input may be long arrays of tokens."""
    await _check_input(body["input"], None)
    return _make_verbatim(wire, body)


def _make_verbatim(wire: WireRequest, body: Mapping[str, Any]) -> VerbatimRequest:
    if wire.route.model == "path" and wire.json.get("model") != body["model"]:
        return make_media_verbatim(wire, raw=patch_json(wire.raw, {"model": body["model"]}, wire.json), body=body)
    return make_media_verbatim(wire, raw=wire.raw, body=wire.json)


def forward_response(call: Call, request: VerbatimRequest, incoming: UpstreamResponse) -> Reply:
    """Return the upstream's response unchanged and record its usage.

    A short `BufferedBody` is read immediately: raises GateError if it is an error.
    """
    chunks = incoming.chunks
    if isinstance(chunks, BufferedBody) and len(chunks.data) <= MAX_PARSED_BYTES:
        return Reply(content_type=JSON_TYPE, chunks=BufferedBody(_check_whole(call, chunks.data)))
    return Reply(content_type=JSON_TYPE, chunks=stages.add_step(incoming.chunks, _VectorsStep(call)))


class _VectorsStep(stages.Step[bytes, bytes]):
    """The step that forwards a response body: a small body after its check, a large one chunk by chunk after its first 64 KiB."""

    __slots__ = ("_call", "_end", "_first", "_held", "_size")

    def __init__(self, call: Call) -> None:
        self._call = call
        self._held: list[bytes] | None = []  # chunks, until the body is larger than MAX_PARSED_BYTES
        self._size = 0
        self._first = self._end = b""  # the start and the end of a large body

    def take(self, items: list[bytes], out: list[bytes]) -> None:
        for chunk in items:
            if self._held is None:
                self._end = (self._end + chunk[-SEARCHED_BYTES:])[-SEARCHED_BYTES:]
                out.append(chunk)
                continue
            self._held.append(chunk)
            self._size += len(chunk)
            if self._size > MAX_PARSED_BYTES:
                beginning, self._held = b"".join(self._held), None
                out.append(self._start_large(beginning))

    def _start_large(self, beginning: bytes) -> bytes:
        if not beginning.lstrip().startswith(b"{"):
            raise UpstreamError("The upstream's embeddings response is not a JSON object. Try again.")
        self._first, self._end = beginning[:SEARCHED_BYTES], beginning[-SEARCHED_BYTES:]
        return beginning

    def end(self, out: list[bytes]) -> None:
        if self._held is None:
            self._call.meter.record_usage(find_usage(self._first, self._end))
        else:
            out.append(_check_whole(self._call, b"".join(self._held)))


def _check_whole(call: Call, raw: bytes) -> bytes:
    """Check a complete response body, record its usage and return it. Raises GateError when the body is an error."""
    body = load_upstream_json(raw, call.target.provider)
    if (failure := find_error(body)) is not None:
        raise failure
    if not isinstance(body, Mapping) or not is_array_of_objects(body.get("data")):
        raise wrong_format_error()
    call.meter.record_usage(parse_usage(body.get("usage")))
    return raw
