"""For providers that send few fields: every field of a request that is not sent is reported, so none is dropped silently. Pure.

A provider for an API with few features names what it sends, and needs no table of what it does not::

    chat = fit_text_chat(call, request, ["max_tokens"])
    turns = [{"who": message.role, "says": read_text(message)} for message in chat.messages]
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import msgspec

from tornado_gate.errors import UnsupportedOperation
from tornado_gate.types import Call, ChatRequest, MediaRequest, Message, Request, Text
from tornado_gate.types.value import replace
from tornado_gate.wire.neutral_values import NEUTRAL_VALUES
from tornado_gate.wire.prompt_cache import select_losses

_NOT_SENT_BY_PROVIDERS: Final = frozenset(
    {"extra", "include_usage", "names", "reply_state", "stream", "task_id", "webhook", "wire_format"}
)
"""Fields that the core or the format honours, and `extra`, whose members are reported one by one."""


def report_unsent_fields(call: Call, request: ChatRequest | MediaRequest, sent: Collection[str] = ()) -> None:
    """Report each field of `request` that has a value and is not in `sent`, with `call.drop_field`.

    Required fields, such as the prompt of an image, count as sent. Raises InvalidField if the caller requested strictness.
    """
    for field in msgspec.structs.fields(request):
        name, value = field.name, getattr(request, field.name)
        if field.required or name in _NOT_SENT_BY_PROVIDERS or name in sent or value is None or value is field.default:
            continue
        if value not in ((), {}, *NEUTRAL_VALUES.get(name, ())):
            call.drop_field(request.field_name(name))
    for name in select_losses(request.extra):
        call.drop_field(name)


def fit_text_chat(call: Call, request: Request, sent: Collection[str] = ()) -> ChatRequest:
    """`request` with nothing but the texts of its messages and the fields in `sent`; everything else is reported.

    Each message has exactly one `Text`; messages without any are left out. Raises UnsupportedOperation for any other request
    than a chat, and InvalidField if the caller requested strictness.
    """
    if not isinstance(request, ChatRequest):
        raise UnsupportedOperation(f"The model '{call.model}' serves chat only. Use another model.")
    report_unsent_fields(call, request, sent)
    messages = tuple(
        Message(role=message.role, parts=(Text(text=text),))
        for number, message in enumerate(request.messages)
        if (text := _join_texts(call, request, number)) is not None
    )
    kept = {name: getattr(request, name) for name in sent}
    names = {name: request.names[name] for name in request.names if name in sent}
    fitted = ChatRequest(model=request.model, messages=messages, stream=request.stream, names=names)
    return replace(fitted, **kept)


def read_text(message: Message) -> str:
    """The joined texts of a message."""
    return "".join(part.text for part in message.parts if isinstance(part, Text))


def _join_texts(call: Call, request: ChatRequest, number: int) -> str | None:
    """The joined texts of message `number`, None without one. Everything else in it is reported."""
    message, texts = request.messages[number], []
    if message.name is not None:
        call.drop_field(f"{request.path(number)}.name")
    for name in select_losses(message.extra):
        call.drop_field(f"{request.path(number)}.{name}")
    for index, part in enumerate(message.parts):
        if not isinstance(part, Text):
            call.drop_field(request.path(number, index))
            continue
        texts.append(part.text)
        for name in select_losses(part.extra):
            call.drop_field(f"{request.path(number, index)}.{name}")
    return "".join(texts) if texts else None
