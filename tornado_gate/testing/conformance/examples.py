"""Requests of callers, from the formats' descriptions and contracts. A few more exist for wire formats that the kit
supports.
"""

from __future__ import annotations

import base64
import io
import re
import struct
import wave
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

from tornado_gate.plugins.lanes import FormatLane
from tornado_gate.testing.stage import CallerRequest
from tornado_gate.types import Route, RouteExample
from tornado_gate.types.value import Value


def make_picture(side: int = 320) -> bytes:
    """Return a PNG file of one colour, large enough for vendors with a smallest size."""
    lines = zlib.compress((b"\0" + b"\x20\x60\xa0" * side) * side)
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", lines), (b"IEND", b"")]
    packed = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


PICTURE: Final = make_picture()
_PICTURE_TEXT: Final = base64.b64encode(PICTURE).decode()
PICTURE_MARK: Final = _PICTURE_TEXT[40:100]
"""A part of the picture that an upstream's body must contain if the picture reached it."""
_SEGMENT: Final = re.compile(r"\{(\w+)\}")
_QUESTION: Final = "What is in the picture?"
_WEATHER: Final = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
_CHAT_TOOL: Final = {"type": "function", "function": {"name": "get_weather", "parameters": _WEATHER}}
_VERSION: Final = {"anthropic-version": "2023-06-01"}

MORE: Final[Mapping[str, tuple[RouteExample, ...]]] = {
    "openai-chat": (
        RouteExample(
            name="image", summary="A picture in the request.",
            body={"messages": [{"role": "user", "content": [
                {"type": "text", "text": _QUESTION},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{_PICTURE_TEXT}"}},
            ]}]},
        ),
        RouteExample(
            name="streamed tool", summary="",
            body={"messages": [{"role": "user", "content": "Weather?"}], "tools": [_CHAT_TOOL], "stream": True},
        ),
    ),
    "openai-completions": (
        RouteExample(name="stream", summary="", body={"prompt": "Once", "max_tokens": 20, "stream": True}),
    ),
    "openai-responses": (
        RouteExample(
            name="image", summary="A picture in the request.",
            body={"input": [{"role": "user", "content": [
                {"type": "input_text", "text": _QUESTION},
                {"type": "input_image", "detail": "auto", "image_url": f"data:image/png;base64,{_PICTURE_TEXT}"},
            ]}]},
        ),
        RouteExample(
            name="streamed tool", summary="",
            body={"input": "Weather?", "stream": True, "tools": [
                {"type": "function", "name": "get_weather", "parameters": _WEATHER, "strict": False}
            ]},
        ),
    ),
    "anthropic-messages": (
        RouteExample(
            name="image", summary="A picture in the request.", headers=_VERSION, operation="chat",
            body={"max_tokens": 100, "messages": [{"role": "user", "content": [
                {"type": "text", "text": _QUESTION},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": _PICTURE_TEXT}},
            ]}]},
        ),
        RouteExample(
            name="streamed tool", summary="", headers=_VERSION, operation="chat",
            body={"max_tokens": 100, "messages": [{"role": "user", "content": "Weather?"}], "stream": True,
                  "tools": [{"name": "get_weather", "input_schema": _WEATHER}]},
        ),
    ),
    "gemini-generate": (
        RouteExample(
            name="image", summary="A picture in the request.", operation="chat",
            body={"contents": [{"role": "user", "parts": [
                {"text": _QUESTION}, {"inlineData": {"mimeType": "image/png", "data": _PICTURE_TEXT}}
            ]}]},
        ),
    ),
}  # fmt: skip
"""Further requests for the routes of wire formats of this distribution, by `Route.wire_format`."""
_GENERATED: Final[Mapping[str, Mapping[str, Any]]] = {
    "images": {"responseModalities": ["IMAGE"]},
    "image_edits": {"responseModalities": ["IMAGE"]},
    "speech": {"responseModalities": ["AUDIO"]},
}


class Example(Value, frozen=True, kw_only=True):
    """A request of one route for one operation. Examples are independent of the model; `make` needs the model's name."""

    format: str
    route: Route
    operation: str
    given: RouteExample

    @property
    def name(self) -> str:
        return f"{self.route.method} {self.route.path} '{self.given.name}'"

    @property
    def asks_stream(self) -> bool:
        """Return whether the request obviously asks for a stream. Otherwise the response shows it."""
        body = self.given.body
        return (isinstance(body, Mapping) and body.get("stream") is True) or ":stream" in self.route.path

    @property
    def has_picture(self) -> bool:
        return self.given.name == "image"

    @property
    def has_tool(self) -> bool:
        return isinstance(self.given.body, Mapping) and bool(self.given.body.get("tools"))

    def make(self, model: str) -> CallerRequest:
        """Return the request for the model named `model`."""
        example, route = self.given, self.route
        arguments = {"model": model, **example.arguments}
        path = _SEGMENT.sub(lambda segment: quote(arguments.get(segment[1], "x"), safe="/:"), route.path)
        body, query, fields = _fill_model(example.body, model), dict(example.query), dict(example.fields)
        is_form = bool(example.files or example.fields)
        if route.model == "body" and is_form:
            fields = {"model": model, **fields}
        elif route.model == "body":
            body = {"model": model, **(body or {})}
        elif route.model == "query":
            query = {"model": model, **query}
        files = {name: _make_file(file) for name, file in example.files.items()}
        return CallerRequest(
            method=route.method, path=f"{path}?{urlencode(query)}" if query else path, headers=example.headers,
            body=None if is_form else body, form={**fields, **files} if is_form else None,
        )  # fmt: skip


def list_examples(lane: FormatLane, contracts: Mapping[str, list[RouteExample]] | None = None) -> Iterator[Example]:
    """Yield the examples of all routes of a format that have a model and a provider's response. Alias routes are
    omitted.

    `contracts` are further examples by path, from the format's own contract tests.
    """
    for route in lane.routes:
        if route.model == "none" or route.socket or route.method != "POST":
            continue
        description = lane.describe_route(route)
        if description is not None and description.alias_of:
            continue
        examples = [*(description.examples if description else ()), *(contracts or {}).get(route.path, ())]
        examples += [
            example for example in MORE.get(route.wire_format, ()) if example.operation in ("", route.operation)
        ]
        for example in examples:
            if not example.needs:
                operation = example.operation if example.operation in route.operations else route.operation
                yield Example(format=lane.name, route=route, operation=operation, given=example)
        yield from _list_alternatives(lane.name, route, examples)


def _list_alternatives(name: str, route: Route, examples: list[RouteExample]) -> Iterator[Example]:
    """Yield the first example of a route for each of its other operations."""
    if not examples:
        return
    for operation in route.other_operations:
        first, body = examples[0], examples[0].body
        if operation in _GENERATED and isinstance(body, Mapping) and "contents" in body:
            body = {**body, "generationConfig": _GENERATED[operation]}
        if operation == "image_edits":
            continue  # needs a picture, whose position only the wire format defines
        yield Example(
            format=name, route=route, operation=operation,
            given=RouteExample(
                name=f"{operation} as {first.name}", summary="", body=body, query=first.query, headers=first.headers
            ),
        )  # fmt: skip


def _fill_model(value: Any, model: str) -> Any:
    if isinstance(value, Mapping):
        return {name: _fill_model(member, model) for name, member in value.items()}
    if isinstance(value, list):
        return [_fill_model(item, model) for item in value]
    return model if value == "{model}" else value


def _make_file(name: str) -> tuple[str, str, bytes]:
    if name.endswith(".wav"):
        return name, "audio/wav", make_silence()
    return name, "image/png", PICTURE


def make_silence(seconds: float = 0.1) -> bytes:
    """Return a WAV file of silence."""
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(b"\0\0" * int(8000 * seconds))
    return buffer.getvalue()
