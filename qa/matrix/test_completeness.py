"""The tables have every field of the vendors' SDKs: a new SDK version with a new field fails here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, get_args, get_type_hints

import anthropic.types as anthropic_types
import openai.types.chat as chat_types
import openai.types.responses as response_types
import pytest
from anthropic.types.message_create_params import MessageCreateParamsBase
from google.genai import types as google_types
from openai.types import completion_create_params, shared_params
from openai.types.chat import completion_create_params as chat_create_params
from openai.types.responses import response_create_params
from openai.types.responses.tool_param import ToolParam

from qa.matrix.places import aliases, members, said, way

ROUTING: Final = {"model"}
"""Said by every body, and read by the gateway itself, which sends the upstream's own name."""

ANTHROPIC_SAYS_NO_MORE: Final = {"temperature", "top_p", "top_k"}

GOOGLE_KEEPS_TO_ITSELF: Final = {
    "httpOptions",  # for the SDK's own client
    "shouldReturnHttpResponse",
    "automaticFunctionCalling",  # the SDK calls functions itself
    "automaticContinuation",  # the SDK sends the next request itself
    "generationOutputConfig",  # on the wire: outputConfig
}


def kinds(name: str) -> set[str]:
    """Every value of a ``type`` member in the tested bodies."""
    return {word for group in way(name).groups for row in group.fields for word in _types(row.body)}


def _types(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        if isinstance(value.get("type"), str):
            yield value["type"]
        for member in value.values():
            yield from _types(member)
    elif isinstance(value, list):
        for member in value:
            yield from _types(member)


def type_words(union: Any) -> Iterator[str]:
    """The possible values of ``type`` in the TypedDicts of a union."""
    for kind in get_args(union):
        yield from _words(get_type_hints(kind)["type"])


def _words(hint: Any) -> Iterator[str]:
    """The values of every Literal inside a type hint."""
    for inner in get_args(hint):
        if isinstance(inner, str):
            yield inner
        else:
            yield from _words(inner)


def test_chat_has_every_field_of_the_sdk() -> None:
    known = said(chat_create_params.CompletionCreateParamsBase, chat_create_params.CompletionCreateParamsStreaming)
    assert members("chat") | ROUTING == known


def test_responses_has_every_field_of_the_sdk() -> None:
    known = said(response_create_params.ResponseCreateParamsBase, response_create_params.ResponseCreateParamsStreaming)
    assert members("responses") | ROUTING == known


def test_completions_has_every_field_of_the_sdk() -> None:
    known = said(
        completion_create_params.CompletionCreateParamsBase, completion_create_params.CompletionCreateParamsStreaming
    )
    assert members("completions") | ROUTING == known


def test_messages_has_every_field_of_the_sdk() -> None:
    known = said(MessageCreateParamsBase, anthropic_types.message_create_params.MessageCreateParamsStreaming)
    assert members("messages") | ROUTING == known | ANTHROPIC_SAYS_NO_MORE


def test_generate_content_has_every_field_of_the_sdk() -> None:
    known = aliases(google_types.GenerateContentConfig) | aliases(google_types.GenerationConfig)
    at_top = members("generateContent")
    assert known - GOOGLE_KEEPS_TO_ITSELF - at_top - members("generateContent", "generationConfig.") == set()
    assert aliases(google_types.GenerationConfig) <= members("generateContent", "generationConfig.")


NESTED: Final = [
    (
        "chat",
        "messages[].",
        said(
            chat_types.ChatCompletionUserMessageParam,
            chat_types.ChatCompletionAssistantMessageParam,
            chat_types.ChatCompletionToolMessageParam,
        ),
    ),
    (
        "chat",
        "messages[].content[].",
        said(
            chat_types.ChatCompletionContentPartTextParam,
            chat_types.ChatCompletionContentPartImageParam,
            chat_types.ChatCompletionContentPartInputAudioParam,
            chat_types.chat_completion_content_part_param.File,
        ),
    ),
    ("chat", "messages[].content[].image_url.", said(chat_types.chat_completion_content_part_image_param.ImageURL)),
    ("chat", "messages[].content[].file.", said(chat_types.chat_completion_content_part_param.FileFile)),
    ("chat", "response_format.json_schema.", said(shared_params.response_format_json_schema.JSONSchema)),
    ("chat", "stream_options.", said(chat_types.ChatCompletionStreamOptionsParam)),
    ("chat", "tools[].function.", said(shared_params.FunctionDefinition)),
    ("chat", "tools[].custom.", said(chat_types.chat_completion_custom_tool_param.Custom)),
    ("chat", "audio.", said(chat_types.ChatCompletionAudioParam)),
    ("responses", "reasoning.", said(shared_params.Reasoning)),
    ("responses", "text.", said(response_types.ResponseTextConfigParam)),
    ("responses", "text.format.", said(response_types.ResponseFormatTextJSONSchemaConfigParam)),
    ("responses", "tools[].", said(response_types.FunctionToolParam, response_types.CustomToolParam)),
    (
        "responses",
        "input[].content[].",
        said(
            response_types.ResponseInputTextParam,
            response_types.ResponseInputImageParam,
            response_types.ResponseInputFileParam,
        ),
    ),
    ("responses", "input[].", said(response_types.EasyInputMessageParam)),
    ("messages", "tools[].", said(anthropic_types.ToolParam)),
    (
        "messages",
        "thinking.",
        said(anthropic_types.ThinkingConfigEnabledParam, anthropic_types.ThinkingConfigAdaptiveParam),
    ),
    ("messages", "output_config.", said(anthropic_types.OutputConfigParam)),
    ("messages", "metadata.", said(anthropic_types.MetadataParam)),
    ("messages", "tool_choice.", said(anthropic_types.ToolChoiceAnyParam)),
    (
        "messages",
        "messages[].content[].",
        said(
            anthropic_types.TextBlockParam,
            anthropic_types.ImageBlockParam,
            anthropic_types.DocumentBlockParam,
            anthropic_types.ToolUseBlockParam,
            anthropic_types.ToolResultBlockParam,
        ),
    ),
    ("generateContent", "contents[].parts[].", aliases(google_types.Part)),
    ("generateContent", "contents[].parts[].functionCall.", aliases(google_types.FunctionCall)),
    ("generateContent", "contents[].parts[].functionResponse.", aliases(google_types.FunctionResponse)),
    ("generateContent", "tools[].", aliases(google_types.Tool)),
    ("generateContent", "tools[].functionDeclarations[].", aliases(google_types.FunctionDeclaration)),
    ("generateContent", "toolConfig.", aliases(google_types.ToolConfig)),
    ("generateContent", "toolConfig.functionCallingConfig.", aliases(google_types.FunctionCallingConfig)),
    ("generateContent", "generationConfig.thinkingConfig.", aliases(google_types.ThinkingConfig)),
]
PLUMBING: Final = {"role", "tool_call_id", "tool_use_id", "id", "name", "type"}
"""Said by every message, tool, call or result, and rows of none: without them there is no such thing."""


@pytest.mark.parametrize(("name", "prefix", "known"), NESTED, ids=[f"{name} {prefix}" for name, prefix, _ in NESTED])
def test_members_of_objects_are_there_too(name: str, prefix: str, known: set[str]) -> None:
    assert known - PLUMBING - members(name, prefix) == set()


def undated(words: Iterable[str]) -> set[str]:
    """Tool types without the dates of their versions; one version of each is enough here."""
    return {re.sub(r"(_[0-9]{2,8})+$", "", word) for word in words}


def test_every_kind_of_tool_and_of_content_is_there() -> None:
    assert undated(type_words(ToolParam)) - undated(kinds("responses")) == set()
    assert undated(type_words(anthropic_types.ToolUnionParam)) - undated(kinds("messages")) == set()
    assert set(type_words(anthropic_types.ContentBlockParam)) - kinds("messages") == set()
