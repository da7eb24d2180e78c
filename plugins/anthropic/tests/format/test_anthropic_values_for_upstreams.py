"""Unknown words and exceeded limits: the upstream of the same wire format decides; a body that must be translated is refused."""

from __future__ import annotations

from typing import Any

import pytest
from format_anthropic_calls import QUESTION, call_for, wire_with

import tornado_gate_anthropic.format as plugin
from tornado_gate.errors import InvalidField

TOOL = {"name": "f", "input_schema": {}}


@pytest.mark.parametrize(
    ("param", "fields"),
    [
        ("messages.0.role", {"messages": [{"role": "developer", "content": {"rows": 1}}]}),
        ("tools", {"tools": [TOOL] * 10_001}),
        ("tools.0.name", {"tools": [{**TOOL, "name": "f" * 129}]}),
        ("temperature", {"temperature": 1.5}),
        ("top_k", {"top_k": -1}),
        ("thinking.budget_tokens", {"thinking": {"type": "enabled", "budget_tokens": -1}}),
    ],
)
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
def test_the_upstream_of_the_same_format_decides(path: str, param: str, fields: dict[str, Any]) -> None:
    wire = wire_with(QUESTION | fields, path)
    forwarded: Any = plugin.forward_request(call_for(), wire)
    assert forwarded.raw is wire.raw
    with pytest.raises(InvalidField) as caught:
        plugin.translate_request(call_for(), wire)
    assert caught.value.param == param


@pytest.mark.parametrize(
    ("param", "fields"),
    [("stream", {"stream": "yes"}), ("max_tokens", {"max_tokens": "5"}), ("messages", {"messages": []})],
)
@pytest.mark.parametrize("hook", [plugin.forward_request, plugin.translate_request])
def test_types_are_checked_on_both_lanes(hook: Any, param: str, fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidField) as caught:
        hook(call_for(), wire_with(QUESTION | fields))
    assert caught.value.param == param
