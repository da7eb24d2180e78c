"""Lists of models have prices and contexts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tests.ledger.test_prices import table
from tornado_gate.server.admin.target_views import TargetView
from tornado_gate.server.admin.views import ModelView
from tornado_gate.server.console.model_catalogue import describe_context, describe_price


def make_view(provider: str, upstream_model: str, **changes: Any) -> ModelView:
    target = TargetView(
        provider=provider, plugin="p", upstream_model=upstream_model, weight=1, state="on", error="", operations=("chat",),
        circuits=(),
    )  # fmt: skip
    usual: dict[str, Any] = {"name": "m", "wildcard": False, "facts": {}, "targets": (target,)}
    return ModelView(state="available", reason="", operations=("chat",), fallback=(), **{**usual, **changes})


def test_a_price_is_in_words() -> None:
    snapshot: Any = SimpleNamespace(
        prices=table({"gpt": {"input": 2.5, "output": 10}, "pictures": {"per_image": 0.04}})
    )
    expected = {
        "$2.50 in, $10.00 out per million tokens": make_view("openai", "gpt"),
        "by use": make_view("openai", "pictures"),
        "free": make_view("local", "local-chat"),
        "unknown": make_view("openai", "something else"),
        "": make_view("openai", "gpt-*", wildcard=True),
    }
    assert {describe_price(snapshot, view) for view in expected.values()} == set(expected)
    for words, view in expected.items():
        assert describe_price(snapshot, view) == words


def test_a_context_is_a_number_of_tokens() -> None:
    assert describe_context(make_view("p", "m", context_tokens=200_000)) == "200\u00a0k"
    assert describe_context(make_view("p", "m")) == ""
