"""A realtime session that runs inside the gateway: a `Socket` with a `VoiceModel` behind it.

An error is sent as an error event and does not end the session. Memory is bounded (`SessionLimits`); when a slow reader has not
read enough messages, responses and `send` wait (back-pressure). The dialect is the current one; the core translates for callers
of the other.

Order of events and error codes are the vendor's. Source: openai-python 3.52, types/realtime/realtime_client_event.py and
realtime_server_event.py; error codes as OpenAI's servers send them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

import orjson

from tornado_gate.codec import checks
from tornado_gate.errors import GateError, InternalError, InvalidField, RequestError, UpstreamError
from tornado_gate.http.fetch.pictures import DECODED_CHARS
from tornado_gate.types import RealtimeDialect
from tornado_gate.types.value import Value, replace
from tornado_gate_openai.voice.answering import Event, ResponseOrder, StopReason, VoiceResponse
from tornado_gate_openai.voice.audio import PCM, RATE, compute_milliseconds
from tornado_gate_openai.voice.buffers import Outbox
from tornado_gate_openai.voice.items import AudioPart, Conversation, Item, parse_item
from tornado_gate_openai.voice.listening import AudioInput, audio_not_supported_error, decode_audio
from tornado_gate_openai.voice.settings import SessionSettings, read
from tornado_gate_openai.voice.voice_model import VoiceModel
from tornado_gate_openai.wire.realtime import SessionConfig, check_client_event, make_error_event, make_id

_REQUESTED_FIELDS: Final = (
    "instructions",
    "output_modalities",
    "tools",
    "tool_choice",
    "audio",
    "max_output_tokens",
    "temperature",
)
"""Session settings that one response may override."""
_OPTIONAL_REQUESTED_FIELDS: Final = ("parallel_tool_calls", "prompt")
MAX_METADATA: Final = 16
LONGEST_KEY, LONGEST_VALUE = 64, 512

log = logging.getLogger("tornado_gate_openai.voice")


class SessionLimits(Value, frozen=True, kw_only=True):
    """The limits of one session. Audio is in bytes of PCM, 48,000 per second; `responses` is the number of concurrent ones."""

    items: int = 2_000
    characters: int = 16 * 1024 * 1024
    sound: int = 16 * 1024 * 1024
    input_buffer: int = 15 * 1024 * 1024
    outbox: int = 4 * 1024 * 1024
    responses: int = 4


DEFAULT_LIMITS = SessionLimits()


class VoiceSession:
    """One session with the model `mind`. `model` is the requested name, `session` the initial settings."""

    dialect: RealtimeDialect = "current"

    def __init__(
        self,
        mind: VoiceModel,
        *,
        model: str,
        session: Mapping[str, Any] | None = None,
        voice: str = "",
        limits: SessionLimits = DEFAULT_LIMITS,
    ) -> None:
        self.close_code: int | None = None
        self.close_reason = ""
        self._mind = mind
        self._limits = limits
        self._id = make_id("sess")
        self._model = model
        usual = SessionConfig(modalities=("text", "audio") if mind.produces_audio else ("text",))
        self._session = replace(usual, id=self._id, model=model, voice=voice or usual.voice)
        self.settings = read(self._session)
        if session:
            self._session, self.settings = self._apply_changes(session)
        self._conversation_id = make_id("conv")
        self.conversation = Conversation(
            most_items=limits.items, most_characters=limits.characters, most_sound=limits.sound
        )
        self._outbox = Outbox(limits.outbox)
        self._tasks: set[asyncio.Task[None]] = set()
        self._answers: dict[str, tuple[VoiceResponse, asyncio.Task[None]]] = {}
        self._listening = AudioInput(mind, self, limits.input_buffer)
        self._handlers = self._make_handler_table()
        self.emit({"type": "session.created", "session": self._session.render("current")})

    def _make_handler_table(self) -> dict[str, Callable[[Event], Coroutine[Any, Any, None]]]:
        return {
            "session.update": self._update,
            "input_audio_buffer.append": self._listening.append,
            "input_audio_buffer.commit": self._commit,
            "input_audio_buffer.clear": self._clear,
            "conversation.item.create": self._create_item,
            "conversation.item.retrieve": self._retrieve_item,
            "conversation.item.truncate": self._truncate_item,
            "conversation.item.delete": self._delete_item,
            "response.create": self._create_response,
            "response.cancel": self._cancel_response,
        }

    # The socket

    async def send(self, text: str) -> None:
        """Process one message of the caller. Raises only UpstreamError, when the session is closed."""
        if self.close_code is not None:
            raise UpstreamError("The realtime session is closed. Open a new session.")
        await self._outbox.wait_for_room()
        event_id: str | None = None
        try:
            event = _parse_event(text)
            client_event_id = event.get("event_id")
            event_id = client_event_id[:512] if isinstance(client_event_id, str) else None
            await self._handle(event)
        except GateError as error:
            self.report(error, event_id)
        except Exception:
            log.exception("could not process a message of a voice session")
            self.report(InternalError(), event_id)

    async def receive(self) -> str | None:
        """Return the next message for the caller."""
        return await self._outbox.get()

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Close the session and cancel its tasks immediately."""
        if self.close_code is not None:
            return
        self.close_code, self.close_reason = code, reason
        self._outbox.close(drop=True)
        tasks = [*self._tasks, *(task for _, task in self._answers.values())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # The interface for the parts of a session

    def emit(self, *events: Event) -> None:
        self._outbox.add(map(_serialize_event, events))

    def report(self, error: GateError, event_id: str | None = None) -> None:
        self.emit(make_error_event(error, event_id, self.dialect))

    async def wait_for_room(self) -> None:
        await self._outbox.wait_for_room()

    def hold_task(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def start_response(self) -> None:
        self._begin_response(self.settings, tuple(self.conversation), remembered=True, shown={})

    async def interrupt(self, why: StopReason) -> None:
        running = self._get_running_response()
        if running is not None:
            await self._stop_response(running, why)

    # Events of the caller

    async def _handle(self, event: Event) -> None:
        kind = event.get("type")
        handler = self._handlers.get(kind) if isinstance(kind, str) else None
        if kind != "input_audio_buffer.append":  # its handler checks it while reading the audio
            check_client_event(event, self.settings.input_format)
        if handler is None:
            raise InvalidField("type", f"Events of the type '{kind}' are not supported by this model.")
        await handler(event)

    async def _update(self, event: Event) -> None:
        self._session, self.settings = self._apply_changes(event["session"])
        self._listening.configure()
        self.emit({"type": "session.updated", "session": self._session.render("current")})

    def _apply_changes(
        self, changes: Mapping[str, Any], path: str = "session"
    ) -> tuple[SessionConfig, SessionSettings]:
        """Return the session with all changes applied. Raises InvalidField; then no change is applied."""
        session = replace(self._session.update(changes, self.dialect), id=self._id, model=self._model)
        settings = read(session, path)
        if settings.spoken and not self._mind.produces_audio:
            checks.raise_invalid(f"{path}.output_modalities", 'must be ["text"]: this model does not produce audio')
        return session, settings

    async def _commit(self, event: Event) -> None:
        self._listening.commit()

    async def _clear(self, event: Event) -> None:
        self._listening.clear()

    # Items

    async def _create_item(self, event: Event) -> None:
        item = await self._parse_item(event["item"], "item")
        self.conversation.insert(item, event.get("previous_item_id"))
        shown = {"previous_item_id": self.conversation.get_previous_id(item), "item": item.render()}
        self.emit({"type": "conversation.item.added", **shown}, {"type": "conversation.item.done", **shown})

    async def _parse_item(self, value: Mapping[str, Any], path: str) -> Item:
        item = parse_item(value, path, make_id("item"))
        for index, sound in item.iterate_audio_parts():
            if sound.pcm is None or sound.output:
                continue
            if not self._mind.accepts_audio and not sound.done:
                raise audio_not_supported_error(f"{path}.content.{index}")
            sound.pcm = bytearray(await decode_audio(bytes(sound.pcm), self.settings.input_format))
            sound.length = len(sound.pcm)
        return item

    async def _retrieve_item(self, event: Event) -> None:
        item = self._find_named_item(event, "retrieve")

        def serialize() -> str:
            return _serialize_event({"type": "conversation.item.retrieved", "item": item.render(sound=True)})

        long = sum(sound.kept_bytes for _, sound in item.iterate_audio_parts()) > DECODED_CHARS
        self._outbox.add([await asyncio.to_thread(serialize) if long else serialize()])

    async def _delete_item(self, event: Event) -> None:
        item = self._find_named_item(event, "delete")
        self.conversation.remove(item)
        self._listening.forget(item)
        self.emit({"type": "conversation.item.deleted", "item_id": item.id})

    async def _truncate_item(self, event: Event) -> None:
        item = self._find_named_item(event, "truncate")
        index, end = event["content_index"], event["audio_end_ms"]
        part = item.parts[index] if index < len(item.parts) else None
        if item.role != "assistant" or not isinstance(part, AudioPart):
            raise InvalidField(
                "content_index",
                "Only audio of the model can be truncated. Check 'item_id' and 'content_index'.",
                code="invalid_value",
            )
        if end > compute_milliseconds(part.length):
            message = f"'audio_end_ms' is {end}, but the audio has only {compute_milliseconds(part.length)} ms."
            raise InvalidField("audio_end_ms", message)
        part.truncate(end)
        fields = {"item_id": item.id, "content_index": index, "audio_end_ms": end}
        self.emit({"type": "conversation.item.truncated", **fields})

    def _find_named_item(self, event: Event, verb: str) -> Item:
        item = self.conversation.find(event["item_id"])
        if item is None:
            message = f"The conversation has no item '{event['item_id'][:64]}'. Check 'item_id'."
            raise InvalidField("item_id", message, code=f"item_{verb}_invalid_item_id")
        return item

    # Responses

    async def _create_response(self, event: Event) -> None:
        overrides = event.get("response") or {}
        remembered = (overrides.get("conversation") or "auto") == "auto"
        if not remembered and overrides["conversation"] != "none":
            checks.raise_invalid("response.conversation", "must be 'auto' or 'none'")
        changes = {
            name: overrides[name]
            for name in (*_REQUESTED_FIELDS, *_OPTIONAL_REQUESTED_FIELDS)
            if overrides.get(name) is not None
        }
        settings = self._apply_changes(changes, "response")[1] if changes else self.settings
        metadata = _parse_metadata(overrides.get("metadata"))
        items = tuple(self.conversation)
        if overrides.get("input") is not None:
            items = tuple(
                [await self._resolve_input_item(value, index) for index, value in enumerate(overrides["input"])]
            )
        self._begin_response(settings, items, remembered=remembered, shown={"metadata": metadata})

    async def _resolve_input_item(self, value: Mapping[str, Any], index: int) -> Item:
        path = f"response.input.{index}"
        if value["type"] != "item_reference":
            return await self._parse_item(value, path)
        item = self.conversation.find(value["id"])
        if item is None:
            message = f"The conversation has no item '{value['id'][:64]}'. Check the id of the item reference."
            raise InvalidField(f"{path}.id", message, code="invalid_item_reference")
        return item

    def _begin_response(
        self, settings: SessionSettings, items: tuple[Item, ...], *, remembered: bool, shown: Mapping[str, Any]
    ) -> None:
        """Start a response. Raises RequestError if one is in progress for the conversation, or too many outside of it."""
        running = self._get_running_response() if remembered else None
        if running is not None:
            raise RequestError(
                f"Conversation already has an active response in progress: {running.id}. Wait until it is done, or cancel it.",
                code="conversation_already_has_active_response",
            )
        if len(self._answers) >= self._limits.responses:
            message = f"The limit of {self._limits.responses} responses in progress is reached. Wait until one is done."
            raise RequestError(message, code="too_many_active_responses")
        kind = settings.output_format
        shape = {"type": kind, "rate": RATE} if kind == PCM else {"type": kind}
        sound = {"output": {"format": shape, "voice": settings.voice}}
        order = ResponseOrder(
            turn=settings.make_turn(items),
            conversation=self.conversation if remembered else None,
            conversation_id=self._conversation_id if remembered else None,
            sound_format=settings.output_format,
            reported_settings={**shown, **({"audio": sound} if settings.spoken else {})},
        )
        answering = VoiceResponse(self._mind, order, self, lambda: self._listening.wait_for_transcripts(items))
        self.emit(answering.make_created_event())
        task = answering.begin()
        self._answers[answering.id] = (answering, task)
        task.add_done_callback(lambda _: self._answers.pop(answering.id, None))

    def _get_running_response(self) -> VoiceResponse | None:
        """Return the response in progress for the conversation, if there is one."""
        for answering, task in self._answers.values():
            if answering.order.conversation is not None and not task.done():
                return answering
        return None

    async def _cancel_response(self, event: Event) -> None:
        response_id = event.get("response_id")
        response = self._answers.get(response_id, (None, None))[0] if response_id else self._get_running_response()
        if response is None:
            raise RequestError(
                "Cancellation failed: no active response found. The response may already be done.",
                code="response_cancel_not_active",
            )
        await self._stop_response(response, "client_cancelled")

    async def _stop_response(self, answering: VoiceResponse, why: StopReason) -> None:
        answering.stop(why)
        _, task = self._answers[answering.id]
        await asyncio.wait({task})


def _serialize_event(event: Event) -> str:
    """Return the JSON text of an event, with a new event id."""
    return orjson.dumps({"event_id": make_id("event"), **event}).decode()


def _parse_event(text: str) -> Event:
    """Return the event in a message. Raises RequestError if the message is not a JSON object."""
    try:
        event = orjson.loads(text)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        raise RequestError(
            "The message is not valid JSON. Send one JSON object per message.", code="invalid_json"
        ) from None
    return checks.need_object(event, "message")


def _parse_metadata(value: Any) -> dict[str, str] | None:
    """Return the metadata of a response, None without. Raises InvalidField beyond the vendor's limits."""
    if not value:
        return None
    for key, text in value.items():
        if len(key) > LONGEST_KEY or not isinstance(text, str) or len(text) > LONGEST_VALUE:
            message = f"'response.metadata' must have keys up to {LONGEST_KEY} and texts up to {LONGEST_VALUE} characters long."
            raise InvalidField("response.metadata", message)
    if len(value) > MAX_METADATA:
        raise InvalidField(
            "response.metadata", f"'response.metadata' has {len(value)} keys; at most {MAX_METADATA} are allowed."
        )
    return dict(value)
