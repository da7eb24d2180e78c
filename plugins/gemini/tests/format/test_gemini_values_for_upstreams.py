"""Unknown words and exceeded limits: the upstream of the same wire format decides; a body that must be translated is refused."""

from __future__ import annotations

from typing import Any

import pytest
from format_gemini_calls import COUNT, GENERATE, QUESTION, call_for, wire_to

import tornado_gate_gemini.format as plugin
from tornado_gate.errors import InvalidField

FUNCTION = {"name": "f"}


@pytest.mark.parametrize(
    ("param", "fields"),
    [
        ("contents.0.role", {"contents": [{"role": "assistant", "parts": [{"text": "Hi"}]}]}),
        ("toolConfig.functionCallingConfig.mode", {"toolConfig": {"functionCallingConfig": {"mode": "SOME"}}}),
        ("tools", {"tools": [{"functionDeclarations": [FUNCTION] * 513}]}),
        ("tools.0.functionDeclarations.0.name", {"tools": [{"functionDeclarations": [{"name": "a/b"}]}]}),
        ("generationConfig.stopSequences", {"generationConfig": {"stopSequences": ["x"] * 17}}),
        ("generationConfig.temperature", {"generationConfig": {"temperature": 2.5}}),
        ("generationConfig.candidateCount", {"generationConfig": {"candidateCount": 0}}),
        ("generationConfig.candidateCount", {"generationConfig": {"candidateCount": 9}}),
        ("generationConfig.maxOutputTokens", {"generationConfig": {"maxOutputTokens": 0}}),
        ("generationConfig.topP", {"generationConfig": {"topP": -0.1}}),
        ("generationConfig.topK", {"generationConfig": {"topK": -1}}),
        (
            "generationConfig.thinkingConfig.thinkingBudget",
            {"generationConfig": {"thinkingConfig": {"thinkingBudget": -2}}},
        ),
        ("generationConfig.responseModalities.1", {"generationConfig": {"responseModalities": ["TEXT", "SMELL"]}}),
        ("generationConfig.responseModalities.0", {"generationConfig": {"responseModalities": [""]}}),
        ("generationConfig.imageConfig.aspectRatio", {"generationConfig": {"imageConfig": {"aspectRatio": "auto"}}}),
    ],
)
@pytest.mark.parametrize("path", [GENERATE, COUNT])
def test_the_upstream_of_the_same_format_decides(path: str, param: str, fields: dict[str, Any]) -> None:
    wire = wire_to(path, QUESTION | fields)
    forwarded: Any = plugin.forward_request(call_for(), wire)
    assert forwarded.raw is wire.raw
    with pytest.raises(InvalidField) as caught:
        plugin.translate_request(call_for(), wire)
    assert caught.value.param == param


def test_modalities_are_read_in_any_case() -> None:
    body = QUESTION | {"generationConfig": {"responseModalities": ["Text", "image", "AUDIO", "MODALITY_UNSPECIFIED"]}}
    request: Any = plugin.translate_request(call_for(), wire_to(GENERATE, body))
    assert request.modalities == ("text", "image", "audio")


@pytest.mark.parametrize("hook", [plugin.forward_request, plugin.translate_request])
def test_types_are_checked_on_both_lanes(hook: Any) -> None:
    body = QUESTION | {"generationConfig": {"temperature": "0.5"}}
    with pytest.raises(InvalidField) as caught:
        hook(call_for(), wire_to(GENERATE, body))
    assert caught.value.param == "generationConfig.temperature"
