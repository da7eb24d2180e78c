"""Both spellings of members, and paths as the caller spelled them."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.gemini.tests.wire.generate import strategies
from plugins.gemini.tests.wire.generate.streaming import parsed, rendered
from tornado_gate.types import (
    ChatRequest,
)
from tornado_gate_gemini.wire.generate import (
    convert_to_camel_case,
    may_have_snake_names,
    parse_request,
    restore_spelling,
)


def snake(value: Any, opaque: bool = False) -> Any:
    """`value` with every member in snake_case, as some clients send it."""
    if isinstance(value, list):
        return [snake(item, opaque) for item in value]
    if not isinstance(value, dict) or opaque:
        return value
    keep = ("args", "response", "parametersJsonSchema", "responseJsonSchema", "executableCode")
    return {
        "".join("_" + letter.lower() if letter.isupper() else letter for letter in name): snake(member, name in keep)
        for name, member in value.items()
    }


@given(request=strategies.requests)
def test_snake_case_says_the_same(request: ChatRequest) -> None:
    body, _ = rendered(request)
    back, snaked = parse_request(body, model="m"), parse_request(snake(body), model="m")
    assert snaked.messages == back.messages
    assert (snaked.tools, snaked.tool_choice, snaked.reasoning) == (back.tools, back.tool_choice, back.reasoning)
    assert {camel_path(name) for name in snaked.extra} == set(back.extra)
    assert {field: camel_path(name) for field, name in snaked.names.items()} == dict(back.names)
    assert rendered(snaked)[0] == body


def camel_path(path: str) -> str:
    return ".".join(next(iter(convert_to_camel_case({name: 1}))) for name in path.split("."))


def test_names_inside_what_users_made_are_never_changed() -> None:
    body = {
        "tools": [
            {
                "function_declarations": [
                    {
                        "name": "f",
                        "parameters": {"type": "OBJECT", "properties": {"mime_type": {"any_of": [{"type": "STRING"}]}}},
                        "parameters_json_schema": {"properties": {"top_k": {}}},
                    }
                ]
            }
        ],
        "contents": [{"parts": [{"function_call": {"name": "f", "args": {"file_uri": {"mime_type": 1}}}}]}],
        "labels": {"top_k": "x"},
    }
    converted = convert_to_camel_case(body)
    declaration = converted["tools"][0]["functionDeclarations"][0]
    assert declaration["parameters"]["properties"] == {"mime_type": {"anyOf": [{"type": "STRING"}]}}
    assert declaration["parametersJsonSchema"] == {"properties": {"top_k": {}}}
    assert converted["contents"][0]["parts"][0]["functionCall"]["args"] == {"file_uri": {"mime_type": 1}}
    assert converted["labels"] == {"top_k": "x"}


def test_a_body_in_camel_case_stays_the_very_same() -> None:
    body = {"contents": [{"parts": [{"inlineData": {"mimeType": "a", "data": "b"}}]}], "x_unknown": {"a_b": 1}}
    assert convert_to_camel_case(body) is body


@given(body=st.dictionaries(strategies.words, strategies.values, max_size=4))
def test_a_text_without_underscores_and_escapes_has_no_snake_names(body: dict[str, Any]) -> None:
    assert may_have_snake_names(orjson.dumps(body)) or convert_to_camel_case(body) is body


@pytest.mark.parametrize("raw", [b'{"top_k":1}', b'{"top\\u005fk":1}', b'{"a":[{"b":{"mime_type":""}}]}'])
def test_a_text_with_a_snake_name_is_found(raw: bytes) -> None:
    body = orjson.loads(raw)
    assert convert_to_camel_case(body) is not body
    assert may_have_snake_names(raw)


def test_a_member_in_both_spellings_is_taken_in_camel_case() -> None:
    assert convert_to_camel_case({"topK": 1, "top_k": 2}) == {"topK": 1, "top_k": 2}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("generationConfig.topK", "generation_config.topK"),
        ("contents.0.parts.1.inlineData.mimeType", "contents.0.parts.1.inline_data.mime_type"),
        ("contents.0.parts.9.text", "contents.0.parts.9.text"),
        ("nowhere.toBeFound", "nowhere.toBeFound"),
    ],
)
def test_a_path_is_told_in_the_callers_spelling(path: str, expected: str) -> None:
    parts = [{"text": "a"}, {"inline_data": {"mime_type": 5}}]
    body = {"generation_config": {"topK": 1}, "contents": [{"parts": parts}]}
    assert restore_spelling(body, path) == expected


def test_losses_are_named_as_the_caller_named_them() -> None:
    request = parsed({"generation_config": {"max_output_tokens": 5, "stopSequences": ["a"]}, "safety_settings": []})
    assert request.field_name("max_tokens") == "generation_config.max_output_tokens"
    assert request.field_name("stop") == "generation_config.stopSequences"
    assert set(request.extra) == {"safety_settings"}


@given(body=st.dictionaries(strategies.words, strategies.values, max_size=4))
def test_camelising_anything_does_no_harm(body: dict[str, Any]) -> None:
    assert convert_to_camel_case(convert_to_camel_case(body)) == convert_to_camel_case(body)
