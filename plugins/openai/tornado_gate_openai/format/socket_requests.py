"""One ``response.create`` message: the body of its request, and its messages to the caller (`response_socket`)."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import orjson

from tornado_gate import REMOVE, patch_json
from tornado_gate.codec.checks import raise_invalid
from tornado_gate.codec.fields import describe_type
from tornado_gate.errors import InvalidField
from tornado_gate.streams.events import iterate_events, replay
from tornado_gate.types import Call, ChatResult, Choice, Usage
from tornado_gate_openai.format.responses import render_event_frame
from tornado_gate_openai.format.socket_turns import Turn, TurnCache
from tornado_gate_openai.format.stored import storing
from tornado_gate_openai.wire.responses import INCLUDE_ENCRYPTED, make_response_id, read_items, render_stream

_DONE: Final = b"[DONE]"
_END_EVENTS: Final = ("response.completed", "response.incomplete")
_MARKED: Final = re.compile(rb'"response\.(?:created|queued|in_progress|completed|incomplete|failed)"|"error"')
"""Events that may have to be read or changed. Quotation marks are escaped in JSON strings, so no text of a model matches."""
_INPUT_PATH: Final = re.compile(r"\binput\.(\d+)")
_NO_TURN: Final = Turn(b"", 0)


class CreateRequest:
    """A `SocketRequest`. Raises InvalidField for a message that cannot be a request."""

    def __init__(
        self, call: Call, turns: TurnCache, body: Mapping[str, Any], raw: bytes, stream_id: str | None
    ) -> None:
        self.lane = stream_id or ""
        self._stream_id = stream_id
        self._call = call
        self._turns = turns
        self._body = body
        self._raw = raw
        self._given = 0
        self._turn = _NO_TURN
        self._headers: Mapping[str, str] = {}
        self._kept: bytes | None = None  # the items up to the response, if it must be kept for the connection
        previous = body.get("previous_response_id")
        self._previous: str | None = previous if isinstance(previous, str) else None
        generate = body.get("generate")
        if generate is not None and not isinstance(generate, bool):
            raise_invalid("generate", f"must be a boolean, not {describe_type(generate)}")
        if body.get("background") is True:
            message = "'background' is not supported over WebSocket. Omit it, or send the request over HTTP."
            raise InvalidField("background", message, code="unsupported_parameter")
        self.only_checked = generate is False

    @property
    def size(self) -> int:
        turn = self._find_turn()
        return len(self._raw) + (len(turn.items) if turn is not None else 0)

    def _find_turn(self) -> Turn | None:
        return None if self._previous is None else self._turns.find(self._previous)

    # The request

    def make_body(self) -> bytes:
        """Return the body of the request. The id of a response that only this connection has is replaced by its conversation."""
        body, raw, self._body, self._raw = self._body, self._raw, {}, b""
        changes: dict[str, Any] = {
            "type": REMOVE,
            "stream_id": REMOVE,
            "generate": REMOVE,
            "background": REMOVE,
            "stream": True,
        }
        message_input = body.get("input")
        items = _read_given_items(message_input)
        self._given = len(items or ())
        turn = self._find_turn()
        if turn is not None and items is not None:
            changes |= self._continue(turn, items, body)
        if self.only_checked and not message_input and (turn is None or not turn.items):
            changes["input"] = " "  # to prepare a response without input is allowed, and no provider gets this one
        if self.only_checked or not storing.is_stored(self._call, body):
            self._kept = _join(self._turn.items, _render_items(items or []))
            changes |= _request_encrypted(body)
        return patch_json(
            raw, {name: value for name, value in changes.items() if value is not REMOVE or name in body}, body
        )

    def _continue(self, turn: Turn, message_input: list[dict[str, Any]], body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the changes to a body that continues a turn of this connection. Raises InvalidField."""
        if body.get("conversation") is not None:
            message = "'previous_response_id' and 'conversation' cannot be used together. Send one of them."
            raise InvalidField("previous_response_id", message)
        self._turn = turn
        items = _join(turn.items, _render_items(message_input))
        previous = REMOVE if turn.previous is None else turn.previous
        return {"previous_response_id": previous, "input": orjson.Fragment(b"[" + items + b"]")}

    async def render_checked(self, model: str) -> AsyncIterator[bytes]:
        """Yield the events of a response without output."""
        usage = Usage(input_tokens=0, output_tokens=0)
        result = ChatResult(model=model, choices=(Choice(parts=(), reason="stop"),), usage=usage)
        events = render_stream(
            iterate_events(replay(result)),
            id=make_response_id(),
            model=model,
            created=int(time.time()),
            asked={"store": False, "previous_response_id": self._previous},
        )
        async for event in events:
            yield render_event_frame(event)

    # The response

    def begin(self, headers: Mapping[str, str]) -> None:
        self._headers = headers

    def render_event(self, data: bytes) -> str | None:
        """Return the message for an event. The first one has the gateway's response headers, as ``headers``."""
        data = data.strip()
        if data == _DONE:
            return None
        if _MARKED.search(data) is not None:
            data = self._read_event(data)
        added: dict[str, Any] = {}
        if self._headers:
            added["headers"], self._headers = self._headers, {}
        if self._stream_id is not None:
            added["stream_id"] = self._stream_id
        if added and data.endswith(b"}"):
            data = data[:-1] + b"," + orjson.dumps(added)[1:]
        return data.decode("utf-8", "replace")

    def _read_event(self, data: bytes) -> bytes:
        """Note the end of a response. Returns the event, changed where a message differs from an event over HTTP."""
        try:
            event = orjson.loads(data)
        except orjson.JSONDecodeError:
            return data
        if not isinstance(event, dict):
            return data
        kind, response = event.get("type"), event.get("response")
        if kind == "error" or (kind is None and "error" in event):
            self._forget_previous()
            return orjson.dumps(_nest_error(event))
        if not isinstance(response, dict) or not isinstance(kind, str):
            return data
        if kind in _END_EVENTS:
            self._keep_turn(response)
        elif kind == "response.failed":
            self._forget_previous()
        if self._turn is _NO_TURN or "previous_response_id" not in response:
            return data
        response["previous_response_id"] = self._previous  # the upstream has got the conversation instead
        return orjson.dumps(event)

    def _keep_turn(self, response: Mapping[str, Any]) -> None:
        """Keep the response for the connection, unless it is stored."""
        kept, identity = self._kept, response.get("id")
        if kept is None or not isinstance(identity, str):
            self._turns.drop(self.lane)
            return
        output = [item for item in response.get("output") or () if isinstance(item, dict) and _can_be_returned(item)]
        count = self._turn.count + self._given + len(output)
        previous = self._previous if self._turn is _NO_TURN else self._turn.previous
        self._turns.keep(self.lane, identity, Turn(_join(kept, _render_items(output)), count, previous))

    def render_error(self, status: int, body: bytes, headers: Mapping[str, str]) -> str:
        """Return the message for a refused request; the response that it would have continued is dropped, as at the vendor."""
        self._forget_previous()
        error = self._correct_paths(orjson.loads(body)["error"])
        event: dict[str, Any] = {
            "type": "error",
            "status": status,
            "error": {**error, "headers": headers},
            "headers": headers,
        }
        if self._stream_id is not None:
            event["stream_id"] = self._stream_id
        return render_event(event)

    def _correct_paths(self, error: Mapping[str, Any]) -> dict[str, Any]:
        """Return an error whose paths count the items of the message, not the items of the conversation before them."""
        before = self._turn.count

        def correct(match: re.Match[str]) -> str:
            index = int(match[1])
            return match[0] if index < before else f"input.{index - before}"

        texts = {name: error.get(name) for name in ("message", "param")} if before else {}
        return {
            **error,
            **{name: _INPUT_PATH.sub(correct, text) for name, text in texts.items() if isinstance(text, str)},
        }

    def _forget_previous(self) -> None:
        if self._previous is not None:
            self._turns.drop(self.lane, self._previous)


def render_event(event: Mapping[str, Any]) -> str:
    """Return an event as a message."""
    return orjson.dumps(event).decode()


def _nest_error(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return an ``error`` event as over WebSocket: its members are in ``error``. Over HTTP they are beside the type.

    An error without a type ends a stream that has begun, and nothing follows it.
    """
    if isinstance(event.get("error"), dict):
        return {"status": 500, **event, "type": "error"} if event.get("type") is None else dict(event)
    error = {name: event.get(name) for name in ("code", "message", "param")}
    rest = {name: value for name, value in event.items() if name not in error}
    return {**rest, "error": {"type": "server_error", **error}}


def _request_encrypted(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a change of ``include`` that requests encrypted reasoning, without which reasoning that is not stored is lost.

    Only with settings of ``reasoning``: models without reasoning refuse it.
    """
    reasoning, include = body.get("reasoning"), body.get("include")
    if not isinstance(reasoning, dict) or reasoning.get("effort") == "none":
        return {}
    if include is not None and (not isinstance(include, list) or INCLUDE_ENCRYPTED in include):
        return {}
    return {"include": [*(include or ()), INCLUDE_ENCRYPTED]} if reasoning else {}


def _read_given_items(message_input: Any) -> list[dict[str, Any]] | None:
    """Return the items of ``input``, which is not checked yet; None if it is invalid."""
    if message_input is None:
        return []
    if isinstance(message_input, str) or (
        isinstance(message_input, list) and all(isinstance(item, dict) for item in message_input)
    ):
        return read_items(message_input)
    return None


def _can_be_returned(item: Mapping[str, Any]) -> bool:
    """Return whether an output item can be sent back: reasoning that is neither encrypted nor text is only known where it is
    stored.
    """
    return item.get("type") != "reasoning" or bool(item.get("encrypted_content") or item.get("content"))


def _render_items(items: list[dict[str, Any]]) -> bytes:
    """Return items as JSON without the brackets of the array."""
    return orjson.dumps(items)[1:-1]


def _join(first: bytes, second: bytes) -> bytes:
    return first + b"," + second if first and second else first or second
