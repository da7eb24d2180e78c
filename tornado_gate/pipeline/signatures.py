"""Thinking signatures: store them, restore dropped signatures, and remove signatures of other providers.

A thinking signature is valid only at the provider that issued it. Most clients drop it, or their wire format has no field for it.
The upstream then rejects the next turn of a tool loop. So the core stores for each account, by tool-call id, the thinking before
the call and the signature of the call, and the issuer of each signature. Before a request is sent, the core removes signatures
of other issuers and restores signatures that the client dropped. With ``responses: {store: never}`` the core stores only
the issuers, by hashes of the signatures, and no thinking. Some upstreams also require thinking without a signature
(`Capabilities.unsigned_thinking`). Clients of formats with signatures drop such thinking.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from tornado_gate.streams.stages import Pause, Step, add_step
from tornado_gate.types import (
    Call,
    ChatRequest,
    CountTokensRequest,
    Finish,
    Message,
    Opaque,
    Part,
    PartDelta,
    PartEnd,
    PartStart,
    Request,
    StreamEvent,
    Text,
    Thinking,
    ToolCall,
)
from tornado_gate.types.value import replace

SIGNATURE_SECONDS = 24 * 3600.0


def _make_call_key(identity: str) -> str:
    return f"call:{identity}"


def _make_signature_key(value: Any) -> str:
    return "signature:" + hashlib.sha256(repr(value).encode()).hexdigest()


def record_signatures(
    call: Call, events: AsyncIterator[StreamEvent], *, unsigned: bool = False
) -> AsyncIterator[StreamEvent]:
    """Yield `events` unchanged. Store each signature with its issuer before the last event of the response.

    With `unsigned`, thinking before tool calls is stored even if it has no signature.
    """
    return add_step(events, _RecordedEvents(call, unsigned))


class _RecordedEvents(Step[StreamEvent, StreamEvent]):
    __slots__ = ("_call", "_recorder")

    def __init__(self, call: Call, unsigned: bool) -> None:
        self._call = call
        keeps_thinking = call.responses.store != "never"
        self._recorder = _SignatureRecorder(call.target.provider, keeps_thinking=keeps_thinking, unsigned=unsigned)

    def take(self, items: list[StreamEvent], out: list[StreamEvent]) -> Pause | None:
        for index, event in enumerate(items):
            self._recorder.note(event)
            if isinstance(event, Finish) and self._recorder.values:
                out += items[:index]  # these items need not wait until the signatures are stored
                return Pause(items[index:], self._remember)
        out += items
        return None

    async def _remember(self) -> None:
        await self._call.memory.put_many(self._recorder.take_values(), SIGNATURE_SECONDS)


class _SignatureRecorder:
    """A collector of one response's thinking and tool calls. Without `keeps_thinking` it keeps only signature hashes."""

    def __init__(self, issuer: str, *, keeps_thinking: bool, unsigned: bool = False) -> None:
        self._issuer = issuer
        self._keeps_thinking = keeps_thinking
        self._unsigned = unsigned
        self._open: dict[int, tuple[PartStart, list[str]]] = {}
        self._thinking: dict[int, list[dict[str, Any]]] = {}
        self._others: dict[int, dict[str, int]] = {}
        self.values: dict[str, Any] = {}
        """The values to store, by key."""

    def note(self, event: StreamEvent) -> None:
        match event:
            case PartStart(kind="thinking" | "tool_call"):
                self._open[event.index] = (event, [])
            case PartStart(kind="text"):
                self._count(event.choice, "texts")
            case PartDelta() if event.index in self._open:
                start, pieces = self._open[event.index]
                if start.kind == "thinking" and isinstance(event.data, str):
                    pieces.append(event.data)
            case PartEnd():
                self._note_end(event)

    def _note_end(self, end: PartEnd) -> None:
        if end.signature is not None:
            self.values[_make_signature_key(end.signature.value)] = self._issuer
        start, pieces = self._open.pop(end.index, (None, []))
        if start is None or not self._keeps_thinking:
            return
        value = end.signature.value if end.signature else None
        before = self._thinking.setdefault(start.choice, [])
        if start.kind == "thinking":
            thought = {"text": "".join(pieces), "signature": value, "redacted": start.redacted}
            before.append(thought | self._others.get(start.choice, {}))
            return
        self._count(start.choice, "calls")
        if value is not None or (before and self._unsigned) or any(thought["signature"] for thought in before):
            remembered = {"issuer": self._issuer, "thinking": list(before), "signature": value}
            self.values[_make_call_key(start.id)] = remembered

    def _count(self, choice: int, kind: str) -> None:
        """Count a text or a call. The counts give the place of later thinking."""
        counts = self._others.setdefault(choice, {"texts": 0, "calls": 0})
        counts[kind] += 1

    def take_values(self) -> dict[str, Any]:
        values, self.values = self.values, {}
        return values


def may_have_signatures(request: Request) -> bool:
    """Return whether a request has a turn of the assistant, whose signatures `restore_signatures` restores or removes."""
    chat = request.chat if isinstance(request, CountTokensRequest) else request
    if isinstance(chat, ChatRequest):
        for message in chat.messages:
            if message.role == "assistant":
                return True
    return False


async def restore_signatures(call: Call, request: Request, *, signatures: bool) -> Request:
    """Return `request` with the signatures of this target only. `signatures`: whether the target issues signatures."""
    match request:
        case CountTokensRequest(chat=chat):
            return replace(request, chat=await _restore_chat(call, chat, signatures))
        case ChatRequest():
            return await _restore_chat(call, request, signatures)
    return request


async def find_issuer(call: Call, request: Request) -> str:
    """Return the provider entry that issued all known signatures of a request, or "" if zero or several entries did."""
    chat = request.chat if isinstance(request, CountTokensRequest) else request
    names = _list_signature_keys(chat) if isinstance(chat, ChatRequest) else []
    issuers = set((await call.memory.find_many(names)).values()) if names else set()
    return issuers.pop() if len(issuers) == 1 else ""


async def has_foreign_signatures(call: Call, request: Request) -> bool:
    """Return whether a request contains a signature that is known to come from another provider."""
    chat = request.chat if isinstance(request, CountTokensRequest) else request
    if not isinstance(chat, ChatRequest):
        return False
    names = _list_signature_keys(chat)
    known = await call.memory.find_many(names) if names else {}
    return any(issuer != call.target.provider for issuer in known.values())


async def _restore_chat(call: Call, request: ChatRequest, signatures: bool) -> ChatRequest:
    names = _list_memory_keys(request) if signatures else []
    known = await call.memory.find_many(names) if names else {}
    return await call.run(_restore_messages, call, request, known)


def restore_without_memory(call: Call, request: ChatRequest, *, signatures: bool) -> ChatRequest | None:
    """Return the result of `restore_signatures`, or None if the memory must be read."""
    if signatures and _list_memory_keys(request):
        return None
    return _restore_messages(call, request, {})


def _restore_messages(call: Call, request: ChatRequest, known: dict[str, Any]) -> ChatRequest:
    messages = tuple(
        _restore_message(call, partial(request.path, number), message, known)
        if message.role == "assistant"
        else message
        for number, message in enumerate(request.messages)
    )
    return request if messages == request.messages else replace(request, messages=messages)


def _list_memory_keys(request: ChatRequest) -> list[str]:
    calls = [
        _make_call_key(part.id)
        for message in request.messages
        if message.role == "assistant"
        for part in message.parts
        if isinstance(part, ToolCall)
    ]
    return calls + _list_signature_keys(request)


def _list_signature_keys(request: ChatRequest) -> list[str]:
    return [
        _make_signature_key(signature.value)
        for message in request.messages
        if message.role == "assistant"
        for part in message.parts
        if (signature := _get_signature(part)) is not None
    ]


def _get_signature(part: Part) -> Opaque | None:
    return part.signature if isinstance(part, Text | Thinking | ToolCall) else None


def _restore_message(call: Call, path: Callable[[int], str], message: Message, known: Mapping[str, Any]) -> Message:
    """Return `message` without other issuers' signatures and with the stored signatures that the client dropped."""
    issuer = call.target.provider
    parts = list(_drop_foreign_signatures(call, path, message, known))
    memories = [known.get(_make_call_key(part.id)) for part in parts if isinstance(part, ToolCall)]
    own = [memory for memory in memories if memory is not None and memory["issuer"] == issuer]
    stored = own[-1]["thinking"] if own else []
    is_gone = stored and not any(isinstance(part, Thinking) for part in parts)
    if is_gone or _count_signed(parts) < sum(thought["signature"] is not None for thought in stored):
        # The issuer cannot use reasoning without its signature, so the complete stored thinking replaces it.
        kept = [part for part in parts if not isinstance(part, Thinking)]
        parts = list(_insert_thinking(issuer, stored, kept))
    return replace(message, parts=tuple(_add_signature(part, issuer, known) for part in parts))


def _count_signed(parts: list[Part]) -> int:
    return sum(isinstance(part, Thinking) and part.signature is not None for part in parts)


def _insert_thinking(issuer: str, thinking: Iterable[dict[str, Any]], others: Iterable[Part]) -> Iterator[Part]:
    """Yield `others` with each thought at its place: after as many texts and calls as in the response.

    A client may have joined texts, so a thought never comes later than the call that followed it.
    """
    waiting, texts, calls = list(thinking), 0, 0
    for part in others:
        called = isinstance(part, ToolCall)
        while waiting and waiting[0].get("calls", 0) <= calls and (called or waiting[0].get("texts", 0) <= texts):
            yield _build_thinking(issuer, waiting.pop(0))
        yield part
        texts += isinstance(part, Text)
        calls += called
    for thought in waiting:
        yield _build_thinking(issuer, thought)


def _drop_foreign_signatures(
    call: Call, path: Callable[[int], str], message: Message, known: Mapping[str, Any]
) -> Iterator[Part]:
    """Yield the parts without other issuers' signatures. Omit thinking with such a signature: only its issuer can use it."""
    for index, part in enumerate(message.parts):
        signature = _get_signature(part)
        if signature is None or known.get(_make_signature_key(signature.value)) == call.target.provider:
            yield part
        elif isinstance(part, Text | ToolCall):
            yield replace(part, signature=None)
        else:
            call.drop_field(path(index))


def _build_thinking(issuer: str, thought: dict[str, Any]) -> Thinking:
    value = thought["signature"]
    signature = None if value is None else Opaque(issuer=issuer, value=value)
    return Thinking(text=thought["text"], signature=signature, redacted=thought["redacted"])


def _add_signature(part: Part, issuer: str, known: Mapping[str, Any]) -> Part:
    if isinstance(part, ToolCall) and part.signature is None:
        memory = known.get(_make_call_key(part.id)) or {}
        if memory.get("issuer") == issuer and memory["signature"] is not None:
            return replace(part, signature=Opaque(issuer=issuer, value=memory["signature"]))
    return part
