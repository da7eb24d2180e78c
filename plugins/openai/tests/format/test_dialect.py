"""Who gets the contract's shape, and who the vendor's."""

from __future__ import annotations

from typing import Any

import pytest

from tornado_gate_openai.format import contract, dialect


@pytest.mark.parametrize(
    "headers",
    [
        {"x-stainless-lang": "python"},
        {"user-agent": "OpenAI/Python 3.52.0"},
        {"user-agent": "AsyncOpenAI/Python 3.52.0"},
        {"user-agent": "AzureOpenAI/Python 1.0"},
        {"user-agent": "AsyncAzureOpenAI/Python 1.0"},
        {"user-agent": "openai/js 6.1"},
        {"user-agent": "Agents/Python 0.20.0"},
        {"user-agent": "Agents/JavaScript 0.1"},
        {"user-agent": "my-app/1 (OpenAI/Go 3.0)"},
        {"user-agent": "litellm/1.80.0"},
        {"user-agent": "ai/7.0.173 ai-sdk-provider-utils/5.0.81 node.js/v20.20.2"},
        {"user-agent": "ai-sdk-openai/4.0.1"},
        {"user-agent": "ai/5.0.0 ai-sdk/openai/2.0.0 runtime/node.js/22"},
    ],
)
def test_a_client_that_names_an_sdk_gets_the_vendors(headers: dict[str, str]) -> None:
    assert dialect.choose_dialect(headers, within_contract=True) == "vendor"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"user-agent": "curl/8.5.0"},
        {"user-agent": "python-requests/2.32 my-openai-app"},
        {"user-agent": "UserAgents/1.0"},
        {"user-agent": "mylitellm/1.0"},
        {"user-agent": "my-ai-sdk/1.0"},
        {"x-client": "OpenAI/Python"},
    ],
)
def test_every_other_client_gets_the_contracts_within_it(headers: dict[str, str]) -> None:
    assert dialect.choose_dialect(headers, within_contract=True) == "contract"
    assert dialect.choose_dialect(headers, within_contract=False) == "vendor"


@pytest.mark.parametrize("forced", ["contract", "vendor"])
def test_conf_has_the_last_word(forced: Any) -> None:
    assert dialect.choose_dialect({"x-stainless-lang": "js"}, within_contract=True, override=forced) == forced
    assert dialect.choose_dialect({}, within_contract=False, override=forced) == forced


@pytest.mark.parametrize(
    ("fields", "within"),
    [
        ({}, True),
        ({"instructions": "Be brief.", "reasoning": {"effort": "low", "summary": "auto"}}, True),
        ({"tools": None}, True),
        ({"tools": []}, False),
        ({"stream": False}, False),
        ({"input": [{"role": "user", "content": "Hi"}]}, False),
        ({"reasoning": {"effort": "low", "context": "auto"}}, False),
        ({"x_new": 1}, False),
    ],
)
def test_a_body_is_within_the_contract_or_not(fields: dict[str, Any], within: bool) -> None:
    assert contract.is_within({"model": "m", "input": "Hi", **fields}) is within


def test_names_that_say_nothing_are_not_used() -> None:
    assert dialect.has_only({"a": 1, "b": None}, {"a"})
    assert not dialect.has_only({"a": 1, "b": 2}, {"a"})
