"""What an upstream of conversations by voice says, and whether it is what the vendor's types say.

Source: openai-python 3.52, types/realtime/realtime_server_event.py, and types/beta/realtime of the dialect before.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any, Final, get_args

from openai.types.beta.realtime import RealtimeServerEvent as BetaEvent
from openai.types.realtime import RealtimeServerEvent as CurrentEvent
from pydantic import BaseModel

Event = dict[str, Any]


def _by_type(union: Any) -> dict[str, type[BaseModel]]:
    """The members of an annotated union of events, by what their `type` says."""
    members: tuple[type[BaseModel], ...] = get_args(get_args(union)[0])
    return {get_args(member.model_fields["type"].annotation)[0]: member for member in members}


_SHAPES: Final = {"current": _by_type(CurrentEvent), "beta": _by_type(BetaEvent)}


def check_shapes(events: Iterable[Mapping[str, Any]], dialect: str) -> None:
    """That the vendor's types have every event as it is. Raises KeyError for another's type, pydantic.ValidationError.

    One thing is let pass: types of the beta dialect know no models but the vendor's.
    """
    for event in events:
        told = event
        if dialect == "beta" and "model" in event.get("session", {}):
            told = {**event, "session": {**event["session"], "model": "gpt-realtime"}}
        _SHAPES[dialect][event["type"]].model_validate(told)


SOUND: Final = bytes(range(256)) * 20
"""PCM16, 24 kHz: what every spoken answer of the upstream sounds like."""
_RESPONSE: Final = {"object": "realtime.response", "conversation_id": "conv_1", "metadata": None}
_PCM: Final = {"type": "audio/pcm", "rate": 24000}


class Script:
    """A conversation as an upstream of today leads it: one session at a time, and it repeats what it was told.

    It calls the first tool of the session until it gets a tool's output.
    """

    def __init__(self) -> None:
        self.session: Event = {
            "type": "realtime", "object": "realtime.session", "id": "sess_1", "model": "gpt-realtime",
            "output_modalities": ["audio"], "instructions": "", "tools": [], "tool_choice": "auto",
            "max_output_tokens": "inf",
            "audio": {
                "input": {"format": _PCM, "transcription": None, "noise_reduction": None, "turn_detection": None},
                "output": {"format": _PCM, "voice": "alloy", "speed": 1.0},
            },
        }  # fmt: skip
        self.heard = ""
        self._number = 0

    def created(self) -> Event:
        """What a session begins with."""
        return self._event("session.created", session=self.session)

    def __call__(self, event: Event) -> list[Event]:
        match event["type"]:
            case "session.update":
                self.session = {**self.session, **event["session"]}
                return [self._event("session.updated", session=self.session)]
            case "conversation.item.create":
                return self._item({"id": self._id("item"), **event["item"]})
            case "input_audio_buffer.commit":
                item = {"id": self._id("item"), "type": "message", "role": "user", "content": [{"type": "input_audio"}]}
                committed = {"previous_item_id": None, "item_id": item["id"]}
                return [self._event("input_audio_buffer.committed", **committed), *self._item(item)]
            case "response.create":
                return self._response(event.get("response") or {})
            case _:
                return []

    def _id(self, prefix: str) -> str:
        self._number += 1
        return f"{prefix}_{self._number}"

    def _event(self, kind: str, **members: Any) -> Event:
        return {"type": kind, "event_id": self._id("event"), **members}

    def _item(self, item: Event) -> list[Event]:
        parts = item.get("content") or [{}]
        self.heard = parts[0].get("text") or item.get("output") or "a sound"
        told = {**item, "object": "realtime.item", "status": "completed"}
        kinds = ("conversation.item.added", "conversation.item.done")
        return [self._event(kind, item=told, previous_item_id=None) for kind in kinds]

    def _response(self, asked: Event) -> list[Event]:
        modalities = asked.get("output_modalities") or self.session["output_modalities"]
        head = {"response_id": (name := self._id("resp")), "output_index": 0, "item_id": self._id("item")}
        base = {**_RESPONSE, "id": name, "output_modalities": modalities}
        begun = {**base, "status": "in_progress", "status_details": None, "output": [], "usage": None}
        if self.session["tools"] and "output" not in self.heard:
            body, item = self._call(head, self.session["tools"][0]["name"])
        else:
            body, item = self._message(head, f"You said: {self.heard}", spoken="audio" in modalities)
        usage = {
            "total_tokens": 30, "input_tokens": 10, "output_tokens": 20,
            "input_token_details": {"text_tokens": 10, "audio_tokens": 0, "cached_tokens": 0},
            "output_token_details": {"text_tokens": 20, "audio_tokens": 0},
        }  # fmt: skip
        ended = {**base, "status": "completed", "status_details": None, "output": [item], "usage": usage}
        done = {**head, "item": item}
        del done["item_id"]
        return [
            self._event("response.created", response=begun),
            *body,
            self._event("conversation.item.done", item=item, previous_item_id=None),
            self._event("response.output_item.done", **done),
            self._event("response.done", response=ended),
        ]

    def _opened(self, head: Event, item: Event) -> list[Event]:
        where = {"response_id": head["response_id"], "output_index": 0}
        return [
            self._event("response.output_item.added", **where, item=item),
            self._event("conversation.item.added", item=item, previous_item_id=None),
        ]

    def _message(self, head: Event, words: str, spoken: bool) -> tuple[list[Event], Event]:
        item: Event = {"id": head["item_id"], "object": "realtime.item", "type": "message", "role": "assistant"}
        at = {**head, "content_index": 0}
        half = len(words) // 2
        kind = "output_audio_transcript" if spoken else "output_text"
        empty: Event = {"type": "audio", "transcript": ""} if spoken else {"type": "text", "text": ""}
        whole = {**empty, "transcript" if spoken else "text": words}
        told = [self._event(f"response.{kind}.delta", **at, delta=piece) for piece in (words[:half], words[half:])]
        if spoken:
            middle = len(SOUND) // 2
            pieces = [base64.b64encode(piece).decode() for piece in (SOUND[:middle], SOUND[middle:])]
            told += [self._event("response.output_audio.delta", **at, delta=piece) for piece in pieces]
            told.append(self._event("response.output_audio.done", **at))
            told.append(self._event("response.output_audio_transcript.done", **at, transcript=words))
        else:
            told.append(self._event("response.output_text.done", **at, text=words))
        content = {
            "type": f"output_{whole['type']}",
            **{name: value for name, value in whole.items() if name != "type"},
        }
        return [
            *self._opened(head, {**item, "status": "in_progress", "content": []}),
            self._event("response.content_part.added", **at, part=empty),
            *told,
            self._event("response.content_part.done", **at, part=whole),
        ], {**item, "status": "completed", "content": [content]}

    def _call(self, head: Event, name: str) -> tuple[list[Event], Event]:
        item: Event = {"id": head["item_id"], "object": "realtime.item", "type": "function_call", "call_id": "call_1"}
        at = {**head, "call_id": "call_1"}
        arguments = '{"city": "Paris"}'
        return [
            *self._opened(head, {**item, "status": "in_progress", "name": name, "arguments": ""}),
            self._event("response.function_call_arguments.delta", **at, delta=arguments),
            self._event("response.function_call_arguments.done", **at, name=name, arguments=arguments),
        ], {**item, "status": "completed", "name": name, "arguments": arguments}
