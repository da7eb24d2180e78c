"""Where requests go, and what they hold."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from gemini_calls import BASE, call_for, translate_request

import tornado_gate_gemini.provider as plugin
from tornado_gate import ProviderEntry
from tornado_gate.errors import ConfigError, InvalidField, UnsupportedOperation
from tornado_gate.testing import KEY, chat
from tornado_gate.types import (
    CountTokensRequest,
    Message,
    Reasoning,
    Request,
    ResponseFormat,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    VerbatimRequest,
)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("", "https://generativelanguage.googleapis.com/v1beta"),
        ("https://h.example", "https://h.example/v1beta"),
        ("https://h.example/", "https://h.example/v1beta"),
        ("https://h.example/v1beta/", "https://h.example/v1beta"),
        ("https://h.example/v1", "https://h.example/v1"),
        ("https://h.example/v1alpha/models", "https://h.example/v1alpha"),
        ("https://h.example/gemini/v1beta", "https://h.example/gemini/v1beta"),
        ("http://127.0.0.1:9/gemini", "http://127.0.0.1:9/gemini/v1beta"),
    ],
)
def test_the_version_is_there_once(given: str, expected: str) -> None:
    assert plugin.configure(ProviderEntry(name="g", base_url=given)).base_url == expected


@pytest.mark.parametrize(
    "base_url", ["ftp://h.example", "h.example", "https://h.example/?key=1", "https://u:p@h.example"]
)
def test_an_address_that_keys_must_not_go_to_is_refused(base_url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        plugin.configure(ProviderEntry(name="g", base_url=base_url))
    assert caught.value.faults[0][0] == ("base_url",)


@pytest.mark.parametrize("settings", [{"json_schema": "yes"}, {"unknown": 1}])
def test_a_setting_that_is_none_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        plugin.configure(ProviderEntry(name="g", settings=settings))


def test_what_the_plugin_can_do() -> None:
    capabilities = plugin.configure(ProviderEntry(name="g"))
    assert capabilities.operations == {
        "chat",
        "count_tokens",
        "embeddings",
        "images",
        "image_edits",
        "speech",
        "videos",
    }
    assert capabilities.speaks == {"gemini-generate", "gemini-embeddings", "gemini-interactions"}
    assert capabilities.inputs_at_once == 100
    assert capabilities.signatures


@pytest.mark.parametrize(
    ("model", "operations"),
    [
        ("gemini-embedding-001", {"embeddings"}),
        ("imagen-4.0-generate-001", {"images"}),
        ("models/imagen-4.0-ultra-generate-001", {"images"}),
        ("veo-3.1-generate-preview", {"videos"}),
        ("publishers/google/models/veo-2.0-generate-001", {"videos"}),
        ("gemini-2.5-flash-preview-tts", {"chat", "speech"}),
        ("gemini-3-pro-image-preview", {"chat", "count_tokens", "images", "image_edits"}),
        ("gemini-3-flash", {"chat", "count_tokens"}),
        ("tunedModels/mine", {"chat", "count_tokens"}),
    ],
)
def test_a_models_name_says_what_it_does(model: str, operations: set[str]) -> None:
    assert plugin.configure(ProviderEntry(name="g")).get_operations(model) == operations


def test_conf_says_what_models_do_that_the_plugin_does_not_know() -> None:
    rules = {"my-painter*": {"operations": ["images"]}, "*-tts*": {"operations": ["chat", "speech", "count_tokens"]}}
    capabilities = plugin.configure(ProviderEntry(name="g", settings={"model_rules": rules}))
    assert capabilities.get_operations("my-painter-2") == {"images"}
    assert capabilities.get_operations("gemini-2.5-flash-preview-tts") == {"chat", "speech", "count_tokens"}
    assert capabilities.get_operations("gemini-3-pro-preview") == {"chat", "count_tokens"}
    with pytest.raises(ConfigError, match=r"operations: .*pictures"):
        plugin.configure(ProviderEntry(name="g", settings={"model_rules": {"*": {"operations": ["pictures"]}}}))


# Up


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("gemini-3-flash", "models/gemini-3-flash"),
        ("models/gemini-3-flash", "models/gemini-3-flash"),
        ("tunedModels/mine", "tunedModels/mine"),
        ("a b:c?d#e/f", "models/a%20b%3Ac%3Fd%23e/f"),
    ],
)
def test_the_path_names_the_model(model: str, path: str) -> None:
    outgoing = translate_request(chat(), call_for(model))
    assert outgoing.url == f"{BASE}/{path}:generateContent"


@pytest.mark.parametrize("model", ["../files", "a/../../b", "a//b", "./a", "a/"])
def test_a_name_that_leads_elsewhere_is_refused(model: str) -> None:
    with pytest.raises(InvalidField) as caught:
        translate_request(chat(), call_for(model))
    assert caught.value.param == "model"


@pytest.mark.parametrize(
    ("request_", "ending"),
    [
        (chat(), ":generateContent"),
        (chat(stream=True), ":streamGenerateContent?alt=sse"),
        (CountTokensRequest(model="m", chat=chat()), ":countTokens"),
    ],
)
def test_the_path_names_the_method(request_: Request, ending: str) -> None:
    assert translate_request(request_).url == f"{BASE}/models/gemini-3-flash{ending}"


def test_the_key_is_in_its_header_alone() -> None:
    outgoing = translate_request(chat())
    assert outgoing.headers == {"content-type": "application/json", "x-goog-api-key": KEY}
    assert KEY not in outgoing.url
    assert "x-goog-api-key" not in translate_request(chat(), call_for(api_key="")).headers
    assert translate_request(chat(), call_for(headers={"X-Goog-Api-Key": "own"})).headers["x-goog-api-key"] == "own"


def history() -> tuple[Message, ...]:
    call = ToolCall(id="c", name="f", arguments="{}")
    result = Message(role="tool", parts=(ToolResult(call_id="c", parts=(Text(text="so"),)),))
    return (Message(role="user", parts=(Text(text="Hi"),)), Message(role="assistant", parts=(call,)), result)


@pytest.mark.parametrize(
    ("model", "settings", "dummy"),
    [
        ("gemini-3-pro-preview", {}, True),
        ("gemini-3.1-flash", {}, True),
        ("gemini-flash-latest", {}, True),
        ("gemini-3-pro-preview", {"thought_signature_dummy": False}, False),
        ("gemini-2.5-flash", {}, False),
        ("gemini-1.5-pro", {}, False),
        ("gemma-3-27b-it", {}, False),
    ],
)
def test_the_dummy_goes_to_those_who_insist_on_a_signature(model: str, settings: Any, dummy: bool) -> None:
    outgoing = translate_request(chat(messages=history()), call_for(model, **settings))
    part = outgoing.json["contents"][1]["parts"][0]
    assert part.get("thoughtSignature") == ("skip_thought_signature_validator" if dummy else None)


@pytest.mark.parametrize(
    ("model", "config"),
    [
        ("gemini-3-flash", {"thinkingLevel": "MEDIUM"}),
        ("gemini-2.5-flash", {"thinkingBudget": 8192}),
    ],
)
def test_a_model_is_told_to_think_in_its_own_words(model: str, config: Any) -> None:
    outgoing = translate_request(chat(reasoning=Reasoning(effort="medium")), call_for(model))
    assert outgoing.json["generationConfig"]["thinkingConfig"] == config


def test_schemas_are_made_smaller_where_conf_says_so() -> None:
    tool = Tool(name="f", parameters={"type": "object", "properties": {"a": {"type": ["string", "null"]}}})
    declared = translate_request(chat(tools=(tool,)), call_for(json_schema=False)).json["tools"][0][
        "functionDeclarations"
    ]
    assert declared == [
        {
            "name": "f",
            "parameters": {"type": "OBJECT", "properties": {"a": {"type": "STRING", "nullable": True}}},
        }
    ]
    declared = translate_request(chat(tools=(tool,))).json["tools"][0]["functionDeclarations"]
    assert declared == [{"name": "f", "parametersJsonSchema": tool.parameters}]


def test_an_older_model_takes_tools_or_a_form() -> None:
    call = call_for("gemini-2.5-flash")
    translate_request(chat(tools=(Tool(name="f"),), response_format=ResponseFormat(kind="json_object")), call)
    assert call.losses == ["response_format"]


def test_a_count_names_the_upstreams_model() -> None:
    request = CountTokensRequest(model="m", chat=chat(tools=(Tool(name="f"),)))
    outgoing = translate_request(request, call_for("tunedModels/mine"))
    assert outgoing.json["generateContentRequest"]["model"] == "tunedModels/mine"


# Up, verbatim


def verbatim(raw: bytes, operation: str = "chat", stream: bool = False, query: str = "") -> VerbatimRequest:
    return VerbatimRequest(
        wire_format="gemini-generate",
        operation=operation,
        path=f"/v1beta/models/asked:x{query}",
        raw=raw,
        body=orjson.loads(raw),
        stream=stream,
    )


RAW = b'{ "contents" : [{"parts": [{"text": "\\u00e9"}]}], "generationConfig": {"topK": 1.0}, "x_new": {"a_b": 1} }'


def test_a_body_in_camel_case_goes_up_as_it_came() -> None:
    assert translate_request(verbatim(RAW)).body == RAW
    assert translate_request(verbatim(RAW, "count_tokens")).url.endswith(":countTokens")


def test_a_stream_is_asked_for_in_the_callers_form() -> None:
    assert translate_request(verbatim(RAW, stream=True)).url.endswith(":streamGenerateContent")
    assert translate_request(verbatim(RAW, stream=True, query="?alt=sse")).url.endswith(
        ":streamGenerateContent?alt=sse"
    )


def test_a_body_in_snake_case_goes_up_in_camel_case() -> None:
    raw = (
        b'{"contents": [{"parts": [{"inline_data": {"mime_type": "image/png", "data": "AAEC"}}]}],'
        b' "generation_config": {"top_k": 1, "response_schema": {"any_of": [{"type": "STRING"}]}}, "x_new": {"a_b": 1}}'
    )
    outgoing = translate_request(verbatim(raw))
    assert outgoing.body is None
    assert outgoing.json == {
        "contents": [{"parts": [{"inlineData": {"mimeType": "image/png", "data": "AAEC"}}]}],
        "generationConfig": {"topK": 1, "responseSchema": {"anyOf": [{"type": "STRING"}]}},
        "x_new": {"a_b": 1},
    }


def test_a_model_named_in_the_body_is_the_upstreams() -> None:
    outgoing = translate_request(verbatim(b'{"contents": [], "model": "models/asked", "n":1.0}'))
    assert outgoing.body == b'{"contents": [], "model": "models/gemini-3-flash", "n":1.0}'
    raw = b'{"generateContentRequest": {"contents": [], "model": "models/asked"}}'
    assert orjson.loads(translate_request(verbatim(raw, "count_tokens")).body or b"") == {
        "generateContentRequest": {"contents": [], "model": "models/gemini-3-flash"}
    }


def test_a_body_of_another_format_is_not_served() -> None:
    request = VerbatimRequest(wire_format="other", operation="chat", path="/", raw=b"{}", body={})
    with pytest.raises(UnsupportedOperation):
        translate_request(request)


UNSIGNED = (
    b'{"contents":[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"functionCall":{"name":"look"}}]},'
    b'{"role":"user","parts":[{"functionResponse":{"name":"look","response":{}}}]}]}'
)


def test_calls_without_a_signature_get_the_dummy_on_the_verbatim_lane_too() -> None:
    """Calls that another vendor's model made have none, and a caller of this format cannot know that."""
    outgoing = translate_request(verbatim(UNSIGNED), call_for("gemini-3-pro-preview"))
    contents = orjson.loads(outgoing.body)["contents"]
    assert contents[1]["parts"] == [
        {"functionCall": {"name": "look"}, "thoughtSignature": "skip_thought_signature_validator"}
    ]
    assert contents[::2] == orjson.loads(UNSIGNED)["contents"][::2]
    assert translate_request(verbatim(UNSIGNED), call_for("gemini-2.5-pro")).body == UNSIGNED
    signed = UNSIGNED.replace(b'{"functionCall"', b'{"thoughtSignature":"AAEC","functionCall"')
    assert translate_request(verbatim(signed), call_for("gemini-3-pro-preview")).body == signed


def test_a_seed_that_is_no_int32_is_not_sent() -> None:
    call = call_for()
    assert "seed" not in translate_request(chat(seed=2**31), call).json.get("generationConfig", {})
    assert call.losses == ["seed"]
    assert translate_request(chat(seed=2**31 - 1)).json["generationConfig"]["seed"] == 2**31 - 1


def test_schemas_of_older_drafts_become_valid() -> None:
    schema = {"type": "OBJECT", "properties": {"at": {"type": "integer", "minimum": 1, "exclusiveMinimum": True}}}
    request = chat(tools=(Tool(name="look", parameters=schema),))
    declaration = translate_request(request).json["tools"][0]["functionDeclarations"][0]
    assert declaration["parametersJsonSchema"] == {
        "type": "object",
        "properties": {"at": {"type": "integer", "exclusiveMinimum": 1}},
    }


@pytest.mark.parametrize("model", ["gemini-2.5-pro", "gemini-3-pro-preview"])
def test_thoughts_are_asked_for_where_the_callers_format_shows_them(model: str) -> None:
    request = chat(reasoning=Reasoning(budget_tokens=2048, enabled=True, visible=True))
    assert (
        translate_request(request, call_for(model)).json["generationConfig"]["thinkingConfig"]["includeThoughts"]
        is True
    )
    hidden = chat(reasoning=Reasoning(budget_tokens=2048, enabled=True))
    assert (
        "includeThoughts" not in translate_request(hidden, call_for(model)).json["generationConfig"]["thinkingConfig"]
    )


def test_thinking_that_is_off_is_not_asked_for() -> None:
    request = chat(reasoning=Reasoning(enabled=False, visible=True))
    assert translate_request(request, call_for("gemini-2.5-flash")).json["generationConfig"]["thinkingConfig"] == {
        "thinkingBudget": 0
    }
