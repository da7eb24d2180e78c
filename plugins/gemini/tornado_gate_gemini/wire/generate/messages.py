"""``contents`` and ``systemInstruction`` and the common messages, in both directions. Pure.

Adjacent contents of the model become one message. A content with function responses becomes a message of role "tool" and, if it
has other parts, one of role "user". In the other direction, adjacent messages of one role become one content, because the
vendor requires alternating turns and all responses of a turn together.

Source: google-genai 3.4, types.Content; for thought signatures https://ai.google.dev/gemini-api/docs/thought-signatures
(2026-01): in the current turn the first call of each step must have one; history that another model wrote may use the
documented dummy value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from tornado_gate.types import (
    Audio,
    Call,
    ChatRequest,
    File,
    Image,
    Message,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    VendorPart,
)
from tornado_gate.types.value import State, field, replace
from tornado_gate.wire.accepted_media import fit_medium
from tornado_gate.wire.empty_conversations import empty_conversation_error
from tornado_gate.wire.fitting import CONTINUE, report_begun_answer
from tornado_gate.wire.part_texts import write_result_texts
from tornado_gate.wire.prompt_cache import select_losses
from tornado_gate_gemini.wire.generate.function_calls import AnsweredCalls, CallRegistry, render_call, render_result
from tornado_gate_gemini.wire.generate.json_values import read_objects
from tornado_gate_gemini.wire.generate.model_features import GeminiModelFeatures
from tornado_gate_gemini.wire.generate.parts import parse_part, render_part
from tornado_gate_gemini.wire.generate.turns import ContentTurn, select_unknown_members

SIGNATURE_DUMMY: Final = "skip_thought_signature_validator"
"""The documented dummy value for a missing signature."""

_TYPES_IN_RESPONSES: Final = ("image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain")
"""Source: ai.google.dev/gemini-api/docs/function-calling, "Multimodal function responses" (read 2026-11-22)."""


def parse_system(value: Any) -> Message | None:
    """The system message of ``systemInstruction``, which is a string, a part or a content; None when it is empty."""
    if isinstance(value, str):
        return Message(role="system", parts=(Text(text=value),))
    if not isinstance(value, dict):
        return None
    parts = value.get("parts", value if "text" in value else None)
    parts = [parts] if isinstance(parts, dict) else parts
    texts = tuple(parse_part(part) for part in read_objects(parts))
    extra = select_unknown_members(value) if "parts" in value else {}
    return Message(role="system", parts=texts, plain=len(texts) == 1, extra=extra) if texts else None


def parse_turns(turns: Sequence[ContentTurn]) -> tuple[Message, ...]:
    """The messages of the turns of a validated ``contents``."""
    book, answered = CallRegistry(), AnsweredCalls()
    return tuple(message for turn in turns for message in _parse_turn(turn, book, answered))


def list_part_paths(turns: Sequence[ContentTurn], system: str) -> dict[str, str]:
    """Paths of the message parts in the body, for `ChatRequest.path`. `system` is the member of the instruction, or ""."""
    names = {"messages": "contents", "content": "parts"}
    number, answered = int(bool(system)), AnsweredCalls()
    if system:
        names["messages.0"] = system
    for turn in turns:
        answers = [] if turn.is_models else [part for part in turn.parts if _is_response(part.value)]
        results = [part for part in answers if not answered.has_repeated(part.value)]
        others = [part for part in turn.parts if part not in answers]
        for group in filter(None, [results, others]) if answers else [others]:
            if number != turn.place and group:
                names[f"messages.{number}"] = f"contents.{turn.place}"
            for index, part in enumerate(group):
                key, path = f"messages.{number}.content.{index}", f"contents.{part.content}.parts.{part.part}"
                if (turn.place, index) != (part.content, part.part):
                    names[key] = path
                if answers and group is results:
                    files = enumerate(read_objects(part.value["functionResponse"].get("parts")))
                    names |= {f"{key}.content.{file + 1}": f"{path}.functionResponse.parts.{file}" for file, _ in files}
            number += 1
    return names


def _parse_turn(turn: ContentTurn, book: CallRegistry, answered: AnsweredCalls) -> Iterator[Message]:
    values = [part.value for part in turn.parts]
    if turn.is_models:
        parts = tuple(_parse_said(part, book) for part in values)
        yield Message(role="assistant", parts=parts, plain=_is_plain(parts), extra=turn.extra)
        return
    responses = [part for part in values if _is_response(part)]
    if results := tuple(book.parse_response(part) for part in responses if not answered.has_repeated(part)):
        yield Message(role="tool", parts=results, extra=turn.extra)
    others = tuple(parse_part(part) for part in values if not _is_response(part))
    if others or not responses:
        yield Message(role="user", parts=others, plain=_is_plain(others), extra={} if results else turn.extra)


def _parse_said(part: Mapping[str, Any], book: CallRegistry) -> Part:
    return book.parse_call(part) if isinstance(part.get("functionCall"), Mapping) else parse_part(part)


def _is_response(part: Mapping[str, Any]) -> bool:
    return isinstance(part.get("functionResponse"), Mapping)


def _is_plain(parts: Sequence[Part]) -> bool:
    """Return whether formats with both forms would use a plain string as content."""
    return sum(not isinstance(part, ToolCall | Thinking) for part in parts) <= 1


def render_contents(
    call: Call, request: ChatRequest, own: bool, dialect: GeminiModelFeatures
) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """``contents`` and ``systemInstruction``. Reports unsupported parts to `call.drop_field` by their path.

    `own` is True when the messages came in this format. All system messages are merged into one instruction, because this
    format has no later instructions; the role of a later message is reported as dropped. Raises InvalidField if no content is
    left to send.
    """
    writer = _ContentWriter(call, own, dialect)
    for number, message in enumerate(request.messages):
        writer.write(message, partial(request.path, number))
    contents, system = writer.contents, writer.system
    if not contents and system:  # the vendor requires a user turn
        contents, system = [{"role": "user", "parts": system}], []
    if not contents:
        raise empty_conversation_error(request.field_name("messages"))
    if not own and not dialect.prefill and contents and _is_begun_answer(contents[-1]):
        report_begun_answer(call, request)
        contents.append({"role": "user", "parts": [{"text": CONTINUE}]})
    if dialect.signature_dummy:
        _add_dummies(contents)
    return contents, {"parts": system} if system else None


def _is_begun_answer(content: Mapping[str, Any]) -> bool:
    return content["role"] == "model" and "functionCall" not in content["parts"][-1]


class _ContentWriter(State):
    call: Call
    own: bool
    dialect: GeminiModelFeatures
    contents: list[dict[str, Any]] = field(default_factory=list)
    system: list[dict[str, Any]] = field(default_factory=list)
    _names: dict[str, str] = field(default_factory=dict)

    def write(self, message: Message, path: Callable[..., str]) -> None:
        if message.name is not None:
            self.call.drop_field(f"{path()}.name")
        self._drop_extra(path, message.extra)
        parts: list[dict[str, Any]] = []
        for index, part in enumerate(message.parts):
            parts += self._render_parts(part, partial(path, index))
        if message.role in ("system", "developer"):
            if self.contents and parts and not self.own:
                self.call.drop_field(f"{path()}.role")  # it takes effect from the beginning on
            self.system += parts
        else:
            self._append_parts("model" if message.role == "assistant" else "user", parts)

    def _append_parts(self, role: str, parts: list[dict[str, Any]]) -> None:
        if self.contents and self.contents[-1]["role"] == role:
            self.contents[-1]["parts"] += parts
        elif parts:
            self.contents.append({"role": role, "parts": parts})

    def _render_parts(self, part: Part, path: Callable[..., str]) -> list[dict[str, Any]]:
        if isinstance(part, ToolResult):
            return self._render_result(part, path)
        if isinstance(part, VendorPart):
            if part.restored is not None:
                return [dict(value) for value in part.restored]
            if part.text is not None:
                return self._render_parts(part.text, path)
        if isinstance(part, ToolCall):
            self._names[part.id] = part.name
            value = self._render_call(part, path)
        elif isinstance(part, Image | Audio | File):
            value = self._render_medium(part, path)
        else:
            value = render_part(part)
        if (
            value is None
            or value == {"text": ""} == value | self._render_signature(part)
            or self._is_empty_thought(part)
        ):
            if value is None or isinstance(part, Thinking):
                self.call.drop_field(path())
            return []  # the vendor rejects an empty part
        if isinstance(part, VendorPart):
            return [value]
        if isinstance(part, Image) and part.detail is not None:
            self.call.drop_field(f"{path()}.detail")
        return [self._add_extra(value | self._render_signature(part), part.extra, path)]

    def _is_empty_thought(self, part: Part) -> bool:
        """Return whether `part` is a thought that only its issuer can read."""
        return isinstance(part, Thinking) and not (self.own or part.text or part.signature)

    def _render_medium(self, part: Image | Audio | File, path: Callable[[], str]) -> dict[str, Any] | None:
        fitted = part if self.own else fit_medium(self.call, part, self.dialect.media_types, path)
        return None if fitted is None else render_part(fitted)

    def _render_call(self, call: ToolCall, path: Callable[..., str]) -> dict[str, Any] | None:
        """A call. Arguments that are no object are sent as text: without its call a response would be rejected."""
        value = render_call(call)
        if value is None:
            self.call.drop_field(path())
            value = render_call(replace(call, kind="custom"))
        return value

    def _render_signature(self, part: Part) -> dict[str, Any]:
        """The issuer's signature, unchanged."""
        signature = part.signature if isinstance(part, Text | Thinking | ToolCall) else None
        return {} if signature is None else {"thoughtSignature": signature.value}

    def _render_result(self, result: ToolResult, path: Callable[..., str]) -> list[dict[str, Any]]:
        name = result.name or self._names.get(result.call_id) or result.call_id or "function"
        result = write_result_texts(result)
        inside: list[dict[str, Any]] = []
        beside: list[dict[str, Any]] = []
        for index, part in enumerate(result.parts):
            inner = partial(path, index)
            if isinstance(part, Text):
                self._add_extra({}, part.extra, inner)
                continue
            value = self._render_medium(part, inner) if isinstance(part, Image | Audio | File) else render_part(part)
            if value is None:
                self.call.drop_field(inner())
                continue
            if isinstance(part, Image | Audio | File):
                self._add_extra(value, part.extra, inner)
            if self.dialect.parts_in_results and _may_be_inside(value):
                inside.append(value)
            else:
                beside.append(value)
        value = self._add_extra(render_result(result, name, inside), result.extra, path)
        return [value, *beside]

    def _add_extra(self, value: dict[str, Any], extra: Mapping[str, Any], path: Callable[..., str]) -> dict[str, Any]:
        if not self.own:
            self._drop_extra(path, extra)
            return value
        for name, member in extra.items():
            if member is not None and isinstance(value.get(name), dict) and isinstance(member, Mapping):
                value[name] = {**member, **value[name]}
            elif member is not None:
                value.setdefault(name, member)
        return value

    def _drop_extra(self, path: Callable[..., str], extra: Mapping[str, Any]) -> None:
        for name in select_losses(extra):
            self.call.drop_field(f"{path()}.{name}")


def _may_be_inside(value: Mapping[str, Any]) -> bool:
    """Return whether the vendor accepts a part inside a function response; other parts are beside it."""
    blob = value.get("inlineData")
    return "text" not in value and (blob is None or blob["mimeType"] in _TYPES_IN_RESPONSES)


def sign_calls(contents: Any) -> list[Any] | None:
    """`contents` of a request in this format, with the dummy signature where the vendor requires one; None if none is missing.

    A client has calls without a signature when another vendor's model made them, or when it did not keep the signature.
    """
    if not isinstance(contents, list) or not all(isinstance(turn, Mapping) and turn.get("parts") for turn in contents):
        return None
    signed = [
        {
            **content,
            "role": content.get("role") or "user",
            "parts": [dict(part) for part in read_objects(content["parts"])],
        }
        for content in contents
    ]
    _add_dummies(signed)
    changed = [
        {**content, "parts": made["parts"]} if made["parts"] != content["parts"] else content
        for content, made in zip(contents, signed, strict=True)
    ]
    return changed if changed != contents else None


def _add_dummies(contents: list[dict[str, Any]]) -> None:
    """Add the dummy signature to the first call of each step of the current turn if it lacks a signature."""
    turn = 0
    for number, content in enumerate(contents):
        if content["role"] == "user" and not any("functionResponse" in part for part in content["parts"]):
            turn = number
    for content in contents[turn:]:
        for part in content["parts"]:
            if "functionCall" in part:
                part.setdefault("thoughtSignature", SIGNATURE_DUMMY)
                break
