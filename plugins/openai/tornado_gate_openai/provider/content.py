"""Content that the vendor's models reject: mapped where that is possible, else dropped and reported. Pure.

Text files become texts where only PDF files are accepted. A file of a type that is not accepted is an error. Long ids of tool
calls become shorter ids, which are the same in every turn. The word JSON is added to a prompt without it.

Sources: files: trpc-group/trpc-agent-go#1816 (2026-05-18); images: STranslate/STranslate#277; ids: vercel/ai#5171 and
AnswerDotAI/fastllm#45 (2026-06-08); the word JSON: mem0ai/mem0#3008.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from functools import partial
from typing import Final, Literal

from tornado_gate.codec.text_files import read_source_text
from tornado_gate.types import (
    Audio,
    Call,
    ChatRequest,
    Data,
    File,
    FileReference,
    Image,
    Message,
    Part,
    Text,
    ToolCall,
    ToolResult,
)
from tornado_gate.types.media_type import media_type as without_parameters
from tornado_gate.types.value import Value, replace
from tornado_gate.wire.accepted_media import fit_medium
from tornado_gate_openai.provider.features import OpenAIModelFeatures

_TEXT_TYPES: Final = ("text/*", "application/json", "application/xml", "application/x-yaml")
_ID_DIGITS: Final = 32
_JSON_ORDER: Final = "Answer in JSON."
PathOf = Callable[..., str]


class ContentRules(Value, frozen=True, kw_only=True):
    """The parts that a model accepts at one API. None means anything; `files` are patterns of media types."""

    images: bool
    audio: bool
    image_types: tuple[str, ...] | None
    audio_types: tuple[str, ...] | None
    files: tuple[str, ...] | None
    longest_call_id: int | None
    json_word: Literal["", "input", "messages"]

    @classmethod
    def of(cls, features: OpenAIModelFeatures, api: Literal["chat", "responses"]) -> ContentRules:
        chat = api == "chat"
        return cls(
            images=features.images,
            audio=features.audio,
            image_types=features.image_types,
            audio_types=features.audio_types,
            files=features.chat_files if chat else features.files,
            longest_call_id=features.longest_chat_call_id if chat else features.longest_call_id,
            json_word="" if not features.json_word else "messages" if chat else "input",
        )

    @property
    def accept_everything(self) -> bool:
        limited = self.image_types or self.audio_types or self.files or self.longest_call_id
        return self.images and self.audio and not limited


def has_other_content(request: ChatRequest, accepted: tuple[str, ...]) -> bool:
    """Return whether the request has content that chat completions have no place for.

    A file at an address, or of a type that is not in `accepted` and cannot become a text; an image or a file in a tool's result.
    """
    for message in request.messages:
        for part in message.parts:
            if isinstance(part, ToolResult):
                if not all(isinstance(inner, Text) for inner in part.parts):
                    return True
            elif isinstance(part, File) and not _has_place(part, accepted):
                return True
    return False


def _has_place(file: File, accepted: tuple[str, ...]) -> bool:
    source = file.source
    return isinstance(source, FileReference) or (
        isinstance(source, Data) and _matches(source, (*accepted, *_TEXT_TYPES))
    )


def _iterate_parts(parts: tuple[Part, ...]) -> Iterator[Part]:
    for part in parts:
        if isinstance(part, ToolResult):
            yield from part.parts
        else:
            yield part


def fit_content(call: Call, request: ChatRequest, rules: ContentRules) -> ChatRequest:
    """`request` with content that the model accepts. Reports each loss to `call.drop_field`."""
    messages = request.messages
    if not rules.accept_everything:
        messages = tuple(
            _fit_message(call, message, rules, partial(request.path, number)) for number, message in enumerate(messages)
        )
    response_format = request.response_format
    if (
        rules.json_word
        and response_format is not None
        and response_format.kind == "json_object"
        and _lacks_word(messages, rules)
    ):
        messages = (*messages, Message(role="developer", parts=(Text(text=_JSON_ORDER),)))
    return request if messages is request.messages else replace(request, messages=messages)


def _lacks_word(messages: tuple[Message, ...], rules: ContentRules) -> bool:
    """Return whether no text has the word JSON. A leading system message does not count where it is not part of the input."""
    apart = rules.json_word == "input" and len(messages) > 1 and messages[0].role == "system"
    return not any(
        isinstance(part, Text) and "json" in part.text.lower()
        for message in messages[1 if apart else 0 :]
        for part in _iterate_parts(message.parts)
    )


def _fit_message(call: Call, message: Message, rules: ContentRules, path: PathOf) -> Message:
    parts: list[Part] = []
    for number, part in enumerate(message.parts):
        if isinstance(part, ToolResult):
            parts.append(_fit_result(call, part, rules, partial(path, number)))
        elif isinstance(part, ToolCall):
            parts.append(replace(part, id=_shorten(part.id, rules)) if _is_long(part.id, rules) else part)
        elif (fitted := _fit_part(call, part, rules, partial(path, number))) is not None:
            parts.append(fitted)
        else:
            call.drop_field(path(number))
    fitted_parts = tuple(parts)
    return message if fitted_parts == message.parts else replace(message, parts=fitted_parts)


def _fit_result(call: Call, result: ToolResult, rules: ContentRules, path: PathOf) -> ToolResult:
    parts: list[Part] = []
    for number, part in enumerate(result.parts):
        if (fitted := _fit_part(call, part, rules, partial(path, number))) is not None:
            parts.append(fitted)
        else:
            call.drop_field(path(number))
    fitted_parts = tuple(parts)
    if fitted_parts == result.parts and not _is_long(result.call_id, rules):
        return result
    return replace(result, parts=fitted_parts, call_id=_shorten(result.call_id, rules))


def _fit_part(call: Call, part: Part, rules: ContentRules, path: Callable[[], str]) -> Part | None:
    """Return the part as the model accepts it; None for a lost part. Raises InvalidField for a file of another type."""
    match part:
        case Image():
            return fit_medium(call, part, rules.image_types, path) if rules.images else None
        case Audio(source=Data()):
            return fit_medium(call, part, rules.audio_types, path) if rules.audio else None
        case File(source=Data() as source) if rules.files is not None and not _matches(source, rules.files):
            text = _read_text(part, source) if _matches(source, _TEXT_TYPES) else None
            return text or fit_medium(call, part, rules.files, path)
        case _:
            return part


def _matches(source: Data, patterns: tuple[str, ...]) -> bool:
    """Return whether the media type matches; an unknown one does, because the vendor may know it from the name."""
    kind = without_parameters(source.media_type)
    return not kind or any(fnmatchcase(kind, pattern) for pattern in patterns)


def _read_text(file: File, source: Data) -> Text | None:
    """The text of a text file, with its name; None for a file that is no text. Raises UnreadableFile."""
    text = read_source_text(source.media_type, source.base64)
    if text is None:
        return None
    return Text(text=f"{file.name}:\n\n{text}" if file.name else text, extra=file.extra)


def _is_long(call_id: str, rules: ContentRules) -> bool:
    return rules.longest_call_id is not None and len(call_id) > rules.longest_call_id


def _shorten(call_id: str, rules: ContentRules) -> str:
    """An accepted id, the same for the same id."""
    if not _is_long(call_id, rules):
        return call_id
    return f"call_{hashlib.sha256(call_id.encode('utf-8', 'surrogatepass')).hexdigest()[:_ID_DIGITS]}"
