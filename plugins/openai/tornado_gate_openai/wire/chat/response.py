"""Whole responses: body to `ChatResult` (client half, lenient), and back (server half). No I/O.

The parts of a message have this order: thinking, text, refusal, audio, images, tool calls. Compatible upstreams send
thinking as ``reasoning_content`` or ``reasoning``; ``images`` is OpenRouter's extension.

Source: openai-python 3.52, types/chat/chat_completion.py and chat_completion_message.py.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from tornado_gate.codec.counts import read_count
from tornado_gate.codec.ids import make_unique_id
from tornado_gate.errors import UpstreamError
from tornado_gate.types import (
    Audio,
    ChatResult,
    Choice,
    Data,
    Image,
    Link,
    Part,
    Refusal,
    Text,
    Thinking,
    ToolCall,
)
from tornado_gate.types.value import replace
from tornado_gate_openai.wire.chat.citations import parse_annotations, render_annotations
from tornado_gate_openai.wire.chat.errors import find_error
from tornado_gate_openai.wire.chat.legacy_functions import LEGACY_CALL
from tornado_gate_openai.wire.chat.messages import render_tool_call
from tornado_gate_openai.wire.chat.parts import (
    WIRE_FORMAT,
    add_extra,
    parse_image,
    render_part,
    select_unknown,
    select_unknown_members,
)
from tornado_gate_openai.wire.chat.usage import parse_finish_reason, parse_usage, render_finish_reason, render_usage

ID_PREFIX: Final = "chatcmpl-"
TOP_EXTRA: Final = ("service_tier", "system_fingerprint", "moderation")
"""The members of `ChatResult.extra` that exist in this format."""

_BODY_MEMBERS: Final = frozenset({"id", "object", "created", "model", "choices", "usage"})
_CHOICE_MEMBERS: Final = frozenset({"index", "message", "finish_reason", "logprobs"})
_TEXT_MEMBERS: Final = frozenset({"role", "content", "refusal", "annotations"})
"""The members of a message that is only a text, if the last two are empty."""
_CALL_EXTRA: Final = ("extra_content",)  # Google's thought signatures, which the client must send back


def make_response_id(upstream_id: str | None, otherwise: str) -> str:
    """Return the upstream's id if it has this format's prefix, else `otherwise`."""
    return upstream_id if upstream_id and upstream_id.startswith(ID_PREFIX) else otherwise


def parse_response(body: Any, *, audio_media_type: str = "") -> ChatResult:
    """Parse a whole response. Raises the upstream's error, or UpstreamError if the body is not a chat completion.

    `audio_media_type` is the media type of the requested audio, which the response does not contain.
    """
    if (error := find_error(body)) is not None:
        raise error
    choices = body.get("choices") if isinstance(body, dict) else None
    if not isinstance(choices, list) or set(map(type, choices)) != {dict}:
        raise UpstreamError(
            "The upstream returned JSON without chat completion choices.", advice="Check the provider's base_url."
        )
    if len(choices) > 1:
        choices = sorted(choices, key=_get_index)
    return ChatResult(
        model=read_string(body.get("model")),
        id=read_string(body.get("id")) or None,
        created=read_count(body.get("created")) or None,
        choices=tuple([_parse_choice(choice, audio_media_type) for choice in choices]),
        usage=parse_usage(body.get("usage")),
        extra=_select_unknown_values(body, _BODY_MEMBERS),
    )


def _select_unknown_values(value: Mapping[str, Any], known: frozenset[str]) -> dict[str, Any]:
    """Return the members of `value` that are not null and whose names are not in `known`."""
    if known.issuperset(value):
        return {}
    return {name: member for name, member in value.items() if member is not None and name not in known}


def _get_index(choice: Mapping[str, Any]) -> int:
    index = choice.get("index")
    return index if isinstance(index, int) else 0


def _parse_choice(choice: Mapping[str, Any], audio_media_type: str) -> Choice:
    message = choice.get("message")
    parts = _parse_message(message, audio_media_type) if isinstance(message, dict) else ()
    raw = read_string(choice.get("finish_reason"))
    return Choice(
        parts=parts,
        reason=parse_finish_reason(raw or "stop", ToolCall in map(type, parts)),
        raw_reason=raw,
        stop_sequence=read_string(choice.get("stop_reason")) or None,  # vLLM's name
        logprobs=_parse_logprobs(choice.get("logprobs")),
        extra=_select_unknown_values(choice, _CHOICE_MEMBERS),
    )


def _parse_logprobs(value: Any) -> dict[str, Any] | None:
    if not isinstance(value, dict):
        return None
    return {kind: value[kind] for kind in ("content", "refusal") if isinstance(value.get(kind), list)} or None


def _parse_message(message: Mapping[str, Any], audio_media_type: str) -> tuple[Part, ...]:
    """Return the parts of a message; most messages are one text."""
    content = message.get("content")
    if (
        content
        and type(content) is str
        and _TEXT_MEMBERS.issuperset(message)
        and not (message.get("refusal") or message.get("annotations"))
    ):
        return (Text(text=content),)
    return tuple(_iterate_parts(message, audio_media_type))


def _iterate_parts(message: Mapping[str, Any], audio_media_type: str) -> Iterator[Part]:
    thinking, text, refusal = read_content(message)
    details = message.get("reasoning_details")
    if thinking or isinstance(details, list):
        yield Thinking(text=thinking, extra={"reasoning_details": details} if isinstance(details, list) else {})
    if text:
        yield Text(text=text, citations=parse_annotations(message.get("annotations"), WIRE_FORMAT))
    if refusal:
        yield Refusal(text=refusal)
    audio = message.get("audio")
    if isinstance(audio, dict):
        yield _parse_audio(audio, audio_media_type)
    yield from parse_images(message)
    yield from _parse_tool_calls(message.get("tool_calls"))
    legacy = message.get("function_call")
    if isinstance(legacy, dict):
        name, arguments = read_name_and_arguments(legacy, "arguments")
        yield ToolCall(id=make_call_id(), name=name, arguments=arguments, extra={LEGACY_CALL: True})


def read_content(message: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return thinking, text and refusal of a message or a delta; content may be a string, null, or an array of parts."""
    thinking = read_string(message.get("reasoning_content")) or read_string(message.get("reasoning"))
    refusal = read_string(message.get("refusal"))
    content = message.get("content")
    text = read_string(content)
    for part in content if isinstance(content, list) else ():
        match part:
            case {"type": "text" | "output_text", "text": str(piece)}:
                text += piece
            case {"type": "refusal", "refusal": str(piece)}:
                refusal += piece
            case {"type": "thinking", "thinking": list(steps)}:  # Mistral
                thinking += "".join(read_string(step.get("text")) for step in steps if isinstance(step, dict))
    return thinking, text, refusal


def read_string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def parse_images(message: Mapping[str, Any]) -> Iterator[Image]:
    """Yield the images of a message or a delta."""
    images = message.get("images")
    for value in images if isinstance(images, list) else ():
        if (image := parse_image(value)) is not None:
            yield image


def _parse_audio(audio: Mapping[str, Any], media_type: str) -> Audio:
    sound = audio.get("data")
    if isinstance(sound, str):
        decode_sound(sound)
    return Audio(
        source=Data(media_type=media_type, base64=sound) if isinstance(sound, str) else None,
        reference=read_string(audio.get("id")) or None,
        transcript=read_string(audio.get("transcript")) or None,
        extra=select_unknown(audio, "id", "data", "transcript"),
    )


def decode_sound(text: str) -> bytes:
    """Decode base64 audio. Raises UpstreamError if it is invalid."""
    try:
        return base64.b64decode(text)
    except (binascii.Error, ValueError) as error:
        raise UpstreamError("The upstream sent audio that is not valid base64. Retry the request.") from error


def _parse_tool_calls(values: Any) -> Iterator[ToolCall]:
    """Yield the tool calls of a message. A duplicate id is replaced, because tool results are matched by id."""
    seen: set[str] = set()
    for value in values if isinstance(values, list) else ():
        if isinstance(value, dict):
            call = _parse_tool_call(value)
            yield replace(call, id=make_call_id()) if call.id in seen else call
            seen.add(call.id)


def _parse_tool_call(value: Mapping[str, Any]) -> ToolCall:
    custom = value.get("type") == "custom" or ("custom" in value and "function" not in value)
    kind, text_name = ("custom", "input") if custom else ("function", "arguments")
    inner = value.get(kind)
    inner = inner if isinstance(inner, dict) else {}
    name, arguments = read_name_and_arguments(inner, text_name)
    return ToolCall(
        id=read_string(value.get("id")) or make_call_id(),
        name=name,
        arguments=arguments,
        kind=kind,
        extra=select_unknown_members(
            {**value, kind: inner}, "id", "type", "index", inside=kind, inner=("name", text_name)
        ),
    )


def read_name_and_arguments(value: Mapping[str, Any], text_name: str) -> tuple[str, str]:
    """Return name and argument text of a call; arguments that are a JSON value are serialized."""
    arguments = value.get(text_name)
    if arguments is None:
        arguments = ""
    text = arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()
    return read_string(value.get("name")), text


def make_call_id() -> str:
    """Return an id for a call without one, because the tool result must refer to it."""
    return f"call_{make_unique_id()[:24]}"


def render_response(result: ChatResult, *, id: str, model: str, created: int) -> dict[str, Any]:
    """Return the vendor's whole response; an upstream id with this format's prefix and an upstream time are kept."""
    created = result.created or created
    body: dict[str, Any] = {
        "id": make_response_id(result.id, id),
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": [_render_choice(number, choice, created) for number, choice in enumerate(result.choices)],
    }
    if result.usage is not None:
        body["usage"] = render_usage(result.usage)
    return body | select_known_extra(result.extra, *TOP_EXTRA)


def select_known_extra(extra: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return the members of `extra` in `names` that are not None; other members may belong to another format."""
    if not extra:
        return {}
    return {name: extra[name] for name in names if extra.get(name) is not None}


def _render_choice(number: int, choice: Choice, created: int) -> dict[str, Any]:
    logprobs = choice.logprobs
    return {
        "index": number,
        "message": _render_message(choice, created),
        "logprobs": logprobs and {"content": logprobs.get("content"), "refusal": logprobs.get("refusal")},
        "finish_reason": render_finish_reason(choice.reason, choice.raw_reason),
    }


def _render_message(choice: Choice, created: int) -> dict[str, Any]:
    parts = choice.parts
    text = [part.text for part in parts if isinstance(part, Text)]
    refusal = "".join(part.text for part in parts if isinstance(part, Refusal)) or choice.explanation
    message: dict[str, Any] = {
        "role": "assistant",
        "content": "".join(text) if text else None,
        "refusal": refusal or None,
    }
    base = 0
    for part in parts:
        match part:
            case Text(text=said, citations=citations):
                if annotations := render_annotations(citations, WIRE_FORMAT, base, len(said)):
                    message.setdefault("annotations", []).extend(annotations)
                base += len(said)
            case Thinking(text=thinking):
                _add_thinking(message, thinking, part.extra)
            case Audio(source=Data(base64=sound)):
                message["audio"] = _render_audio(part, sound, created)
            case Image(source=Data() | Link()):
                message.setdefault("images", []).append(render_part(part, own=False))
            case ToolCall(extra=extra) if extra.get(LEGACY_CALL):
                message[LEGACY_CALL] = {"name": part.name, "arguments": part.arguments}
            case ToolCall():
                message.setdefault("tool_calls", []).append(render_call(part))
    return message


def _add_thinking(message: dict[str, Any], text: str, extra: Mapping[str, Any]) -> None:
    if text:
        message["reasoning_content"] = message.get("reasoning_content", "") + text
    if isinstance(details := extra.get("reasoning_details"), list):
        message.setdefault("reasoning_details", []).extend(details)


def _render_audio(audio: Audio, sound: str, created: int) -> dict[str, Any]:
    return {
        "id": audio.reference or "",
        "data": sound,
        "expires_at": audio.extra.get("expires_at", created),  # not stored: a later turn cannot refer to it
        "transcript": audio.transcript or "",
    }


def render_call(call: ToolCall) -> dict[str, Any]:
    """Return one entry of ``tool_calls``, with the members of `extra` that exist in this format."""
    return add_extra(render_tool_call(call), select_known_extra(call.extra, *_CALL_EXTRA))
