"""What a provider with few fields does not send is reported, whatever it is."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tornado_gate.errors import InvalidField, UnsupportedOperation
from tornado_gate.testing import call_to, chat
from tornado_gate.types import (
    ChatRequest,
    Data,
    EmbeddingRequest,
    Image,
    ImageRequest,
    Message,
    Text,
    Tool,
    ToolChoice,
    VideoRequest,
)
from tornado_gate.wire.unsent_fields import fit_text_chat, read_text, report_unsent_fields

PICTURE = Image(source=Data(media_type="image/png", base64="AAAA"))


def losses(request: ChatRequest, *sent: str) -> list[str]:
    call = call_to()
    fit_text_chat(call, request, sent)
    return call.losses


def test_every_optional_field_is_reported_or_sent() -> None:
    own = {"extra", "include_usage", "names", "reply_state", "stream", "task_id", "webhook", "wire_format"}
    required: dict[type, dict[str, Any]] = {
        ChatRequest: {"messages": ()},
        ImageRequest: {"prompt": "x"},
        VideoRequest: {"prompt": "x"},
    }
    for kind, given in required.items():
        for field in msgspec.structs.fields(kind):
            if field.required or field.name in own:
                continue
            request: Any = kind(**{"model": "m", field.name: "a value", **given})
            for sent, losses in ((set(), [field.name]), ({field.name}, [])):
                call = call_to()
                report_unsent_fields(call, request, sent)
                assert call.losses == losses, f"{kind.__name__}.{field.name}"


def test_values_that_change_nothing_are_not_reported() -> None:
    assert losses(chat(temperature=1.0, n=1, tool_choice=ToolChoice(mode="auto"), stop=(), logprobs=False)) == []
    assert losses(chat(tool_choice=ToolChoice(mode="required"))) == ["tool_choice"]
    assert losses(chat(temperature=0, seed=0, parallel_tool_calls=False)) == [
        "temperature",
        "seed",
        "parallel_tool_calls",
    ]


def test_names_are_those_of_the_caller() -> None:
    assert losses(chat(max_tokens=1, names={"max_tokens": "max_completion_tokens"})) == ["max_completion_tokens"]
    assert losses(chat(extra={"colour": "blue", "none": None})) == ["colour"]
    assert losses(chat(tools=(Tool(name="t"),))) == ["tools"]


def test_messages_have_one_text_each_and_everything_else_is_reported() -> None:
    messages = (
        Message(role="system", parts=(Text(text="Be "), Text(text="brief.", extra={"cache_control": {}}))),
        Message(role="user", name="Ann", parts=(Text(text="Look"), PICTURE), extra={"mood": 1}),
        Message(role="user", parts=(PICTURE,)),
    )
    call, request = call_to(), chat(messages=messages, seed=1, max_tokens=3)
    fitted = fit_text_chat(call, request, ["max_tokens"])
    assert [(message.role, read_text(message)) for message in fitted.messages] == [
        ("system", "Be brief."),
        ("user", "Look"),
    ]
    assert all(len(message.parts) == 1 for message in fitted.messages)
    assert (fitted.max_tokens, fitted.seed) == (3, None)
    assert call.losses == [
        "seed",
        "messages.0.content.1.cache_control",
        "messages.1.name",
        "messages.1.mood",
        "messages.1.content.1",
        "messages.2.content.0",
    ]


def test_strictness_and_other_requests_are_errors() -> None:
    with pytest.raises(InvalidField, match="seed"):
        fit_text_chat(call_to(strict=True), chat(seed=1))
    with pytest.raises(UnsupportedOperation, match="chat only"):
        fit_text_chat(call_to(), EmbeddingRequest(model="m", inputs=("a",)))
