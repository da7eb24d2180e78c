"""One response: it renders the pieces of a `VoiceModel` as the vendor's events, in the vendor's order, for every kind of end.

::

    response.created
      response.output_item.added, conversation.item.added, response.content_part.added
        response.output_text.delta* .done
        or response.output_audio.delta* and response.output_audio_transcript.delta*, then .done of both
      response.content_part.done, response.output_item.done, conversation.item.done
      or for a call, between the two pairs: response.function_call_arguments.delta .done
    response.done

Source: openai-python 3.52, types/realtime/response_*.py, realtime_response.py, realtime_response_usage.py.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any, Final, Literal, Protocol

from tornado_gate.errors import GateError, InternalError
from tornado_gate.types.value import Value, field
from tornado_gate_openai.voice.audio import BYTES_PER_SECOND, encode, get_frame_bytes
from tornado_gate_openai.voice.items import AudioPart, Conversation, Item, TextPart
from tornado_gate_openai.voice.voice_model import (
    AudioPiece,
    CallPiece,
    CutShortPiece,
    Piece,
    TextPiece,
    Turn,
    UsagePiece,
    VoiceModel,
)
from tornado_gate_openai.wire.realtime import make_id

Event = dict[str, Any]

PIECE_BYTES: Final = BYTES_PER_SECOND // 5
"""Bytes of PCM in one audio event: 200 ms, whole samples in every format."""

StopReason = Literal["client_cancelled", "turn_detected"]

log = logging.getLogger("tornado_gate_openai.voice")


class ResponseOrder(Value, frozen=True, kw_only=True):
    """The parameters of one response. `reported_settings` are repeated in its events.

    `conversation` is None for a response that is not added to a conversation. `sound_format` is `audio.PCM`, `ULAW` or `ALAW`.
    """

    turn: Turn
    conversation: Conversation | None
    conversation_id: str | None
    sound_format: str
    reported_settings: Mapping[str, Any] = field(default_factory=dict)


class EventSink(Protocol):
    """A receiver of events.

    `emit` does not wait, so that related events stay together; `wait_for_room` waits for a slow reader.
    """

    def emit(self, *events: Event) -> None: ...
    def report(self, error: GateError) -> None: ...
    async def wait_for_room(self) -> None: ...


class VoiceResponse:
    """A response in progress. `run` returns when it has ended, with or without an error.

    `prepare` is awaited before the `VoiceModel` is called; an exception of it fails the response.
    """

    def __init__(
        self, mind: VoiceModel, order: ResponseOrder, caller: EventSink, prepare: Callable[[], Awaitable[None]]
    ) -> None:
        self.id = make_id("resp")
        self.order = order
        self._mind = mind
        self._caller = caller
        self._prepare = prepare
        self._output: list[Item] = []
        self._part: TextPart | AudioPart | None = None  # the open part of the current message
        self._unsent = b""
        self._spent: UsagePiece | None = None
        self._cut: CutShortPiece | None = None
        self._stopped: StopReason | None = None
        self._task: asyncio.Task[None] | None = None
        self._running = False

    def begin(self) -> asyncio.Task[None]:
        self._task = asyncio.create_task(self.run(), name=self.id)
        return self._task

    def stop(self, why: StopReason) -> None:
        """Cancel the response. It still sends its closing events with the status and the output so far."""
        if self._stopped is None:
            self._stopped = why
            if self._running and self._task is not None:
                self._task.cancel()

    async def run(self) -> None:
        """Produce the response. Raises only CancelledError, for a cancellation other than `stop`."""
        error: GateError | None = None
        try:
            if self._stopped is None:
                self._running = True
                await self._run_model()
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._stopped is None or task is None or task.uncancel() > 0:
                raise
        except GateError as failure:
            error = failure
        except Exception:
            log.exception("voice response failed")
            error = InternalError()
        finally:
            self._running = False
        self._finish(error)

    async def _run_model(self) -> None:
        await self._prepare()
        async with aclosing(_as_closing_generator(self._mind, self.order.turn)) as pieces:
            async for piece in pieces:
                await self._add_piece(piece)
        self._close_message("completed" if self._cut is None else "incomplete")

    async def _add_piece(self, piece: Piece) -> None:
        match piece:
            case TextPiece(text=text):
                if text:
                    await self._add_text(text)
            case AudioPiece(pcm=pcm):
                if pcm and self.order.turn.spoken:
                    await self._add_audio(pcm)
            case CallPiece():
                self._add_call(piece)
            case UsagePiece():
                self._spent = piece
            case CutShortPiece():
                self._cut = piece

    # Output

    async def _add_text(self, text: str) -> None:
        await self._caller.wait_for_room()
        part = self._open_message()
        if isinstance(part, AudioPart):
            part.transcript = (part.transcript or "") + text
            self._caller.emit(self._make_part_event("response.output_audio_transcript.delta", delta=text))
        else:
            part.text += text
            self._caller.emit(self._make_part_event("response.output_text.delta", delta=text))

    async def _add_audio(self, pcm: bytes) -> None:
        part = self._open_message()
        assert isinstance(part, AudioPart)
        pcm = self._unsent + pcm
        aligned = len(pcm) - len(pcm) % get_frame_bytes(self.order.sound_format)
        self._unsent = pcm[aligned:]
        for start in range(0, aligned, PIECE_BYTES):
            await self._caller.wait_for_room()
            piece = pcm[start : min(aligned, start + PIECE_BYTES)]
            sent = base64.b64encode(encode(piece, self.order.sound_format)).decode()
            part.add(piece)
            self._caller.emit(self._make_part_event("response.output_audio.delta", delta=sent))

    def _open_message(self) -> TextPart | AudioPart:
        if self._part is not None:
            return self._part
        spoken = self.order.turn.spoken
        part = AudioPart(bytearray(), transcript="", output=True, done=True) if spoken else TextPart("", output=True)
        item = Item(id=make_id("item"), role="assistant", status="in_progress")
        added = self._make_item_events("added", item)
        item.parts.append(part)
        self._part = part
        shown = self._make_part_event("response.content_part.added", part=_render_part(part))
        self._caller.emit(*added, shown)
        return part

    def _close_message(self, status: Literal["completed", "incomplete"]) -> None:
        part, self._part, self._unsent = self._part, None, b""
        if part is None:
            return
        item = self._output[-1]
        item.status = status
        events = []
        if isinstance(part, AudioPart):
            events.append(self._make_part_event("response.output_audio.done"))
            events.append(self._make_part_event("response.output_audio_transcript.done", transcript=part.heard_words))
        else:
            events.append(self._make_part_event("response.output_text.done", text=part.text))
        events.append(self._make_part_event("response.content_part.done", part=_render_part(part)))
        self._caller.emit(*events, *self._make_item_events("done", item))
        if self.order.conversation is not None:
            self.order.conversation.forget_sound()

    def _add_call(self, called: CallPiece) -> None:
        """Add a function call as an item, with its arguments in one delta."""
        self._close_message("completed")
        item = Item(
            id=make_id("item"), kind="function_call", status="in_progress", name=called.name, call_id=called.call_id
        )
        events = self._make_item_events("added", item)
        item.arguments, item.status = called.arguments, "completed"
        position = {"call_id": called.call_id, **self._make_position(), "item_id": item.id}
        if called.arguments:
            events.append({"type": "response.function_call_arguments.delta", **position, "delta": called.arguments})
        done = {"arguments": called.arguments, "name": called.name}
        events.append({"type": "response.function_call_arguments.done", **position, **done})
        self._caller.emit(*events, *self._make_item_events("done", item))

    # Events

    def _make_part_event(self, kind: str, **rest: Any) -> Event:
        """Return an event for the open part."""
        return {"type": kind, **self._make_position(), "item_id": self._output[-1].id, "content_index": 0, **rest}

    def _make_position(self) -> Event:
        return {"response_id": self.id, "output_index": len(self._output) - 1}

    def _make_item_events(self, stage: Literal["added", "done"], item: Item) -> list[Event]:
        """Return the events of an item that is added (then it is also stored) or done.

        Raises RequestError for a full conversation.
        """
        conversation = self.order.conversation
        if stage == "added":
            if conversation is not None:
                conversation.insert(item)
            self._output.append(item)
        shown = item.render()
        events: list[Event] = [{"type": f"response.output_item.{stage}", **self._make_position(), "item": shown}]
        if conversation is not None and conversation.find(item.id) is item:
            before = conversation.get_previous_id(item)
            events.append({"type": f"conversation.item.{stage}", "previous_item_id": before, "item": shown})
        return events

    def make_created_event(self) -> Event:
        """Return the first event, which is sent before `begin`."""
        return {"type": "response.created", "response": self._render_response("in_progress", None)}

    def _finish(self, error: GateError | None) -> None:
        self._close_message("incomplete")
        details: Event | None = None
        status = "completed"
        if self._stopped is not None:
            status, details = "cancelled", {"type": "cancelled", "reason": self._stopped}
        elif error is not None:
            body = error.body()
            shown = {name: body[name] for name in ("type", "code", "message")}
            status, details = "failed", {"type": "failed", "error": shown}
        elif self._cut is not None:
            status, details = "incomplete", {"type": "incomplete", "reason": self._cut.reason}
        done = {"type": "response.done", "response": self._render_response(status, details)}
        self._caller.emit(done)
        if error is not None and self._stopped is None:
            self._caller.report(error)

    def _render_response(self, status: str, details: Event | None) -> Event:
        order = self.order
        response: Event = {
            "object": "realtime.response",
            "id": self.id,
            "status": status,
            "status_details": details,
            "output": [item.render() for item in self._output],
            "conversation_id": order.conversation_id,
            "output_modalities": ["audio" if order.turn.spoken else "text"],
            "max_output_tokens": order.turn.max_tokens or "inf",
            "usage": None if status == "in_progress" else _render_usage(self._spent),
            "metadata": None,
        }
        return {**response, **order.reported_settings}


async def _as_closing_generator(mind: VoiceModel, turn: Turn) -> Any:
    """Yield the pieces of the model's response. Closing this generator also closes the model's iterator if it can be closed."""
    pieces = mind.answer(turn)
    try:
        async for piece in pieces:
            yield piece
    finally:
        close = getattr(pieces, "aclose", None)
        if close is not None:
            await close()


def _render_part(part: TextPart | AudioPart) -> Event:
    if isinstance(part, AudioPart):
        return {"type": "audio", "transcript": part.heard_words}
    return {"type": "text", "text": part.text}


def _render_usage(spent: UsagePiece | None) -> Event:
    """Return the usage object; counters without a value are 0, because clients add them without a check."""
    usage = None if spent is None else spent.usage
    heard = 0 if spent is None else spent.input_audio_tokens
    spoken = 0 if spent is None else spent.output_audio_tokens
    input_tokens = (usage.input_tokens if usage else None) or 0
    made = (usage.output_tokens if usage else None) or 0
    image_tokens = (usage.image_tokens if usage else None) or 0
    cached = (usage.cache_read_tokens if usage else None) or 0
    return {
        "total_tokens": input_tokens + made,
        "input_tokens": input_tokens,
        "output_tokens": made,
        "input_token_details": {
            "text_tokens": max(0, input_tokens - heard - image_tokens),
            "audio_tokens": heard,
            "image_tokens": image_tokens,
            "cached_tokens": cached,
            "cached_tokens_details": {"text_tokens": cached, "audio_tokens": 0, "image_tokens": 0},
        },
        "output_token_details": {"text_tokens": max(0, made - spoken), "audio_tokens": spoken},
    }
