"""Unknown words and exceeded limits: the upstream of the same wire format decides; a body that must be translated is refused."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest
from format_openai_calls import QUESTION, call_for, wire_with

import tornado_gate_openai.format as plugin
from tornado_gate.errors import InvalidField
from tornado_gate.types import Call, VerbatimRequest, WireRequest

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
RESPONSES = "/v1/responses"
EMBEDDINGS = "/v1/embeddings"
MODERATIONS = "/v1/moderations"
SPEECH = "/v1/audio/speech"
IMAGES = "/v1/images/generations"
BODIES: dict[str, dict[str, Any]] = {
    CHAT: QUESTION,
    TEXT: {"model": "m", "prompt": "Hi"},
    RESPONSES: {"model": "m", "input": "Hi"},
    EMBEDDINGS: {"model": "m", "input": "Hi"},
    MODERATIONS: {"model": "m", "input": "Hi"},
    SPEECH: {"model": "m", "input": "Hi", "voice": "alloy"},
    IMAGES: {"model": "gpt-image-1", "prompt": "a cat"},
}
FUNCTION = {"type": "function", "function": {"name": "f"}}
SDK = {"user-agent": "OpenAI/Python 3.52.0"}

REFUSED_IN_TRANSLATION: list[tuple[str, str, dict[str, Any]]] = [
    (CHAT, "tool_choice", {"tools": [FUNCTION], "tool_choice": "any"}),  # Mistral
    (
        CHAT,
        "tool_choice.allowed_tools.mode",
        {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "x", "tools": []}}},
    ),
    (CHAT, "function_call", {"function_call": "required"}),
    (CHAT, "tools", {"tools": [FUNCTION] * 129}),
    (CHAT, "tools.0.function.name", {"tools": [{"type": "function", "function": {"name": "a/b"}}]}),
    (CHAT, "stop", {"stop": ["a", "b", "c", "d", "e"]}),
    (CHAT, "response_format.type", {"response_format": {"type": "structural_tag", "structures": []}}),  # vLLM
    (CHAT, "messages.0.role", {"messages": [{"role": "ipython", "content": {"rows": 1}}]}),
    (
        CHAT,
        "messages.0.content.0.image_url.detail",
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https:x", "detail": "4k"}}]}]},
    ),
    (CHAT, "messages", {"messages": QUESTION["messages"] * 10_001}),
    (CHAT, "temperature", {"temperature": 2.5}),
    (CHAT, "n", {"n": 200}),
    (CHAT, "top_logprobs", {"logprobs": True, "top_logprobs": 50}),
    (CHAT, "max_tokens", {"max_tokens": -1}),  # llama.cpp: no limit
    (TEXT, "stop", {"stop": ["a", "b", "c", "d", "e"]}),
    (TEXT, "prompt", {"prompt": ["Hi"] * 2049}),
    (RESPONSES, "tool_choice", {"tool_choice": "any"}),
    (RESPONSES, "truncation", {"truncation": "middle"}),
    (RESPONSES, "text.format.type", {"text": {"format": {"type": "grammar", "syntax": "lark"}}}),
    (RESPONSES, "input.0.role", {"input": [{"role": "critic", "content": {"rows": 1}}]}),
    (RESPONSES, "input", {"input": [{"role": "user", "content": "Hi"}] * 10_001}),
    (RESPONSES, "temperature", {"temperature": 2.5}),
    (EMBEDDINGS, "encoding_format", {"encoding_format": "int8"}),  # Voyage
    (EMBEDDINGS, "dimensions", {"dimensions": 0}),
    (EMBEDDINGS, "input", {"input": ["a"] * 2049}),
    (EMBEDDINGS, "input", {"input": [[1]] * 2049}),
    (EMBEDDINGS, "input", {"input": [1] * 300_001}),
    (EMBEDDINGS, "input", {"input": [[1] * 200_000, [1] * 100_001]}),
    (MODERATIONS, "input", {"input": ["a"] * 2049}),
    (MODERATIONS, "input.0.type", {"input": [{"type": "audio", "audio": {}}]}),
    (SPEECH, "input", {"input": "a" * 4097}),
    (SPEECH, "response_format", {"response_format": "ogg"}),
    (SPEECH, "response_format", {"response_format": ""}),
    (SPEECH, "speed", {"speed": 0}),
    (SPEECH, "speed", {"speed": 4.1}),
    (SPEECH, "stream_format", {"stream_format": "json"}),
    (IMAGES, "quality", {"quality": "ultra"}),
    (IMAGES, "background", {"background": "checkered"}),
    (IMAGES, "moderation", {"moderation": "high"}),
    (IMAGES, "output_format", {"output_format": "avif"}),
    (IMAGES, "output_compression", {"output_compression": 50}),
    (IMAGES, "partial_images", {"partial_images": 2}),
    (IMAGES, "input_fidelity", {"input_fidelity": "medium"}),
]  # fmt: skip

TAKEN_ON_BOTH_LANES: list[tuple[str, dict[str, Any]]] = [
    (CHAT, {"reasoning_effort": "none-at-all"}),
    (CHAT, {"service_tier": "batch"}),
    (CHAT, {"verbosity": "chatty"}),
    (CHAT, {"messages": [{"role": "user", "content": [{"type": "hologram", "x": 1}]}]}),
    (RESPONSES, {"input": [{"type": "hologram", "x": 1}]}),
    (RESPONSES, {"reasoning": {"effort": "none-at-all"}, "service_tier": "batch", "text": {"verbosity": "chatty"}}),
]

WRONG_FOR_THE_GATEWAY: list[tuple[str, str, dict[str, Any]]] = [
    (CHAT, "model", {"model": 1}),
    (CHAT, "stream", {"stream": "yes"}),
    (CHAT, "messages", {"messages": "Hi"}),
    (CHAT, "messages.0.content", {"messages": [{"role": "user", "content": 1}]}),
    (CHAT, "tool_choice", {"tool_choice": 1}),
    (CHAT, "max_tokens", {"max_tokens": "5"}),
    (TEXT, "prompt", {"prompt": {}}),
    (RESPONSES, "input", {"input": 1}),
    (RESPONSES, "reasoning.effort", {"reasoning": {"effort": 1}}),
]


def result_of(hook: Any, call: Call, wire: WireRequest) -> Any:
    given = hook(call, wire)
    if not inspect.isawaitable(given):
        return given

    async def wait() -> Any:
        return await given

    return asyncio.run(wait())


@pytest.mark.parametrize(("path", "param", "fields"), REFUSED_IN_TRANSLATION)
def test_the_upstream_of_the_same_format_decides(path: str, param: str, fields: dict[str, Any]) -> None:
    wire = wire_with(BODIES[path] | fields, path)
    call = call_for(BODIES[path]["model"], headers=SDK)
    request = result_of(plugin.forward_request, call, wire)
    assert isinstance(request, VerbatimRequest)
    assert request.body == wire.json
    with pytest.raises(InvalidField) as caught:
        result_of(plugin.translate_request, call, wire)
    assert caught.value.param == param


@pytest.mark.parametrize(
    ("path", "param", "fields"),
    [
        (EMBEDDINGS, "encoding_format", {"encoding_format": "int8"}),
        (IMAGES, "background", {"background": "checkered"}),
        (IMAGES, "moderation", {"moderation": "high"}),
    ],
)
def test_words_that_the_contract_lacks_are_refused_for_its_callers(
    path: str, param: str, fields: dict[str, Any]
) -> None:
    call = call_for(BODIES[path]["model"])
    with pytest.raises(InvalidField) as caught:
        result_of(plugin.forward_request, call, wire_with(BODIES[path] | fields, path))
    assert caught.value.param == param


@pytest.mark.parametrize(
    ("param", "fields"),
    [
        ("prompt", {"prompt": "a" * 32_001}),
        ("n", {"n": 0}),
        ("n", {"n": 11}),
        ("size", {"size": "100x100"}),
        ("style", {"style": "vivid"}),
        ("background", {"background": "transparent", "output_format": "jpeg"}),
    ],
)
def test_the_contracts_limits_of_images_hold_for_every_caller(param: str, fields: dict[str, Any]) -> None:
    call = call_for("gpt-image-1", headers=SDK)
    with pytest.raises(InvalidField) as caught:
        result_of(plugin.forward_request, call, wire_with(BODIES[IMAGES] | fields, IMAGES))
    assert caught.value.param == param


def test_an_unknown_part_beside_an_image_goes_to_the_upstream() -> None:
    parts = [{"type": "hologram"}, {"type": "text", "text": "Look"}]
    wire = wire_with({"model": "m", "input": parts}, MODERATIONS)
    assert result_of(plugin.forward_request, call_for(headers=SDK), wire).body == wire.json


@pytest.mark.parametrize(("path", "fields"), TAKEN_ON_BOTH_LANES)
def test_words_that_vendors_extend_are_taken_on_both_lanes(path: str, fields: dict[str, Any]) -> None:
    wire = wire_with(BODIES[path] | fields, path)
    assert result_of(plugin.forward_request, call_for(headers=SDK), wire).body == wire.json
    result_of(plugin.translate_request, call_for(headers=SDK), wire)


@pytest.mark.parametrize(("path", "param", "fields"), WRONG_FOR_THE_GATEWAY)
@pytest.mark.parametrize("hook", [plugin.forward_request, plugin.translate_request])
def test_types_are_checked_on_both_lanes(hook: Any, path: str, param: str, fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidField) as caught:
        result_of(hook, call_for(), wire_with(BODIES[path] | fields, path))
    assert caught.value.param == param


@pytest.mark.parametrize("hook", [plugin.forward_request, plugin.translate_request])
def test_an_effort_that_the_contract_lacks_is_refused_for_its_callers(hook: Any) -> None:
    body = BODIES[RESPONSES] | {"reasoning": {"effort": "huge"}}
    with pytest.raises(InvalidField) as caught:
        result_of(hook, call_for(), wire_with(body, RESPONSES))
    assert caught.value.param == "reasoning.effort"
    assert "'low', 'medium' or 'high'" in caught.value.message
    for effort in ("low", "medium", "high", None):
        result_of(hook, call_for(), wire_with(body | {"reasoning": {"effort": effort}}, RESPONSES))
