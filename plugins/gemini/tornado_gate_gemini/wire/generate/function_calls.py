"""Function calls and responses, and the matching between them. Pure.

A call often has no id; a response without an id then belongs to the first call of its name that has no response. Common parts
match by id, so a call without one gets its number in the conversation, which stays the same in later turns.

Source: google-genai 3.4, types.FunctionCall and FunctionResponse.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from tornado_gate.codec.large_json import dump_json, load_text
from tornado_gate.types import Part, Text, ToolCall, ToolResult
from tornado_gate.wire.json_schema import has_keyword
from tornado_gate_gemini.wire.generate.json_values import (
    drop_none,
    parse_signature,
    read_call_id,
    read_objects,
    read_string,
    select_unknown,
)
from tornado_gate_gemini.wire.generate.parts import parse_part

_SCHEMA_WORDS: Final = ("$ref", "$defs", "$schema")
_NO_ID: Final = {"id": None}
"""`extra` of a call or response without an id, so that the id made here is not sent upstream."""


class AnsweredCalls:
    """The responses of a conversation so far, by id: gemini-cli 0.61 sends each one twice when it resumes a session."""

    def __init__(self) -> None:
        self._responses: dict[str, Mapping[str, Any]] = {}

    def has_repeated(self, part: Mapping[str, Any]) -> bool:
        """Return whether a ``functionResponse`` part is an equal repetition of an earlier one with its id."""
        response = part["functionResponse"]
        identity = read_string(response.get("id"))
        earlier = self._responses.get(identity)
        if earlier is None and identity:
            self._responses[identity] = response
        return bool(earlier == response)


class CallRegistry:
    """The calls of a conversation so far, in order."""

    def __init__(self) -> None:
        self._count = 0
        self._open: list[tuple[str, str]] = []

    def parse_call(self, part: Mapping[str, Any]) -> ToolCall:
        """The `ToolCall` of a ``functionCall`` part."""
        call = part["functionCall"]
        given_id, signature = read_string(call.get("id")), parse_signature(part.get("thoughtSignature"))
        signed_id = read_call_id(signature)
        identity = given_id or signed_id or self._make_id()
        name = read_string(call.get("name"))
        self._open.append((identity, name))
        extra = select_unknown(part, "functionCall", "thought", "thoughtSignature")
        if unknown := select_unknown(call, "id", "name", "args"):
            extra["functionCall"] = unknown
        return ToolCall(
            id=identity,
            name=name,
            arguments=dump_json(call.get("args") or {}).decode(),
            signature=None if signed_id else signature,
            extra=extra if given_id else {**extra, **_NO_ID},
        )

    def parse_response(self, part: Mapping[str, Any]) -> ToolResult:
        """The `ToolResult` of a ``functionResponse`` part."""
        response = part["functionResponse"]
        given_id, name = read_string(response.get("id")), read_string(response.get("name"))
        text, is_error = _parse_response(response.get("response"))
        extra = select_unknown(part, "functionResponse", "thought")
        if unknown := select_unknown(response, "id", "name", "response", "parts"):
            extra["functionResponse"] = unknown
        more: list[Part] = [parse_part(value) for value in read_objects(response.get("parts"))]
        return ToolResult(
            call_id=self._match_call_id(given_id, name),
            name=name or None,
            parts=(Text(text=text), *more),
            is_error=is_error,
            extra=extra if given_id else {**extra, **_NO_ID},
        )

    def _make_id(self) -> str:
        self._count += 1
        return f"call_{self._count}"

    def _match_call_id(self, identity: str, name: str) -> str:
        """The id of the call that a response belongs to."""
        for value, column in ((identity, 0), (name, 1)):
            for call in self._open:
                if value and call[column] == value:
                    self._open.remove(call)
                    return call[0]
        return identity or self._make_id()


def _parse_response(response: Any) -> tuple[str, bool]:
    """The text of a response, and whether it is an error."""
    match response:
        case {"result": str(text), **others} if not others:
            return text, False
        case {"error": error, **others} if not others:
            return error if isinstance(error, str) else orjson.dumps(error).decode(), True
        case None:
            return "{}", False
    return orjson.dumps(response).decode(), False


def render_call(call: ToolCall) -> dict[str, Any] | None:
    """A ``functionCall`` part without its signature; None when the arguments are not a JSON object.

    This format has no free-text tools: the text of such a call is sent as ``input``.
    """
    arguments: Any = {"input": call.arguments}
    if call.kind == "function":
        try:
            arguments = load_text(call.arguments) if call.arguments.strip() else {}
        except orjson.JSONDecodeError:
            return None
        if not isinstance(arguments, dict):
            return None
    identity = None if call.extra.get("id", ...) is None else call.id
    return {"functionCall": drop_none(id=identity or None, name=call.name, args=arguments)}


def render_result(result: ToolResult, name: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
    """A ``functionResponse`` part that contains `parts`. `name` is the function's name, which this format requires."""
    text = "".join(part.text for part in result.parts if isinstance(part, Text))
    identity = None if result.extra.get("id", ...) is None else result.call_id
    response = drop_none(id=identity or None, name=name, response=_render_response(text, result.is_error))
    if parts:
        response["parts"] = parts
    return {"functionResponse": response}


def _render_response(text: str, is_error: bool) -> dict[str, Any]:
    """The response as the object that the vendor requires. Schema-like objects are sent as text: ``$ref`` is rejected."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        value = text
    readable = isinstance(value, dict) and not has_keyword(value, _SCHEMA_WORDS)
    if is_error:
        return {"error": value if readable else text}
    if readable:
        return dict(value)
    return {"result": text}
