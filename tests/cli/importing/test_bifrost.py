"""Bifrost's config.json as a configuration, which is checked and served."""

from __future__ import annotations

import urllib.error
from pathlib import Path
from typing import Any

import pytest

from tests.cli.importing.support import import_conf, run, write_with_upstream
from tests.support.control import call
from tests.support.gateway import Gateway
from tests.support.upstream import Upstream
from tests.support.wire_answers import make_answer
from tornado_gate.cli.importing.bifrost import read_bifrost

VARIABLES = {
    name: f"value-of-{name.lower()}"
    for name in ("OPENAI_KEY_A", "OPENAI_KEY_B", "ANTHROPIC_KEY_C", "ANTHROPIC_KEY_D", "NVIDIA_KEY", "VK_APP")
}


def test_providers_keys_teams_and_budgets_are_carried(tmp_path: Path) -> None:
    result, conf = import_conf("bifrost", write_with_upstream("bifrost.json", tmp_path, "http://127.0.0.1:9"))
    assert result.exit_code == 2
    for expected in (
        "providers.bedrock",
        "virtual_keys.other-key, budget",
        "virtual_keys.made",
        "concurrency_and_buffer_size",
    ):
        assert expected in result.output
    first, second = conf["models"]["openai/gpt-4o"]["targets"]
    assert (first["weight"], second["weight"]) == (7, 3)
    assert conf["providers"][first["provider"]]["headers"] == {"X-Environment": "production"}
    assert conf["models"]["gpt-4o-mini"] == {"provider": "openai"}
    assert conf["models"]["anthropic/*"] == {"provider": "anthropic"}
    assert conf["providers"]["anthropic"]["api_keys"] == ["${ANTHROPIC_KEY_C}", "${ANTHROPIC_KEY_D}"]
    assert conf["keys"][0] == {
        **{"name": "app", "key": "${VK_APP}", "team": "research", "user": "Acme-Corp"},
        **{"models": ["openai/gpt-4o", "gpt-4o"], "budget": {"usd_per_day": 50}},
        **{"requests_per_minute": 100, "tokens_per_minute": 50000},
    }
    assert [key["name"] for key in conf["keys"]] == ["app", "other-key"]
    assert conf["teams"] == {"research": {"limits": {"usd_per_month": 500}}}
    assert conf["users"] == {"Acme-Corp": {"limits": {"usd_per_month": 1000}}}
    checked = run("check", "--conf", tmp_path / "imported.yaml", variables=VARIABLES)
    assert checked.exit_code == 0, checked.output


@pytest.mark.qa
def test_a_virtual_key_works_for_its_models_only(tmp_path: Path) -> None:
    upstream = Upstream.start()
    upstream.script(make_answer("chat", ["Hello"], stream=False))
    import_conf("bifrost", write_with_upstream("bifrost.json", tmp_path, upstream.url))
    text = (tmp_path / "imported.yaml").read_text(encoding="utf-8")
    gateway = Gateway.start(text, tmp_path, environment=VARIABLES)
    try:
        body = {"model": "openai/gpt-4o", "messages": [{"role": "user", "content": "Hi"}]}
        call("POST", f"{gateway.url}/v1/chat/completions", body, key="value-of-vk_app")
        with pytest.raises(urllib.error.HTTPError) as refused:
            call("POST", f"{gateway.url}/v1/chat/completions", {**body, "model": "nemotron"}, key="value-of-vk_app")
        assert refused.value.code == 403
    finally:
        gateway.stop()
    (request,) = upstream.requests
    assert request.json["model"] == "gpt-4o"
    assert request.headers["authorization"] in ("Bearer value-of-openai_key_a", "Bearer value-of-openai_key_b")
    upstream.stop()


def make_source(**governance: Any) -> dict[str, Any]:
    keys = [{"id": "k", "name": "k", "value": "v", "models": ["gpt-4o"], "weight": 1}]
    return {"providers": {"openai": {"keys": keys}}, "governance": governance}


def make_key(**values: Any) -> dict[str, Any]:
    configs = [{"provider": "openai", "allowed_models": ["*"], "key_ids": ["*"]}]
    return {"id": "i", "name": "n", "value": "sk-bf-0123456789abcdef", "provider_configs": configs, **values}


LOSSES: list[tuple[dict[str, Any], str]] = [
    ({"providers": {"vertex": {"keys": []}}}, "service accounts"),
    ({"providers": {"azure": {"keys": [{"value": "v", "models": ["*"]}]}}}, "states no base_url"),
    (make_source(routing_rules=[{"name": "r"}]), "by expressions"),
    (make_source(virtual_keys=[make_key(provider_configs=[])]), "allows no model"),
    (make_source(virtual_keys=[make_key(expires_at="2999-01-01T00:00:00Z")]), "do not expire"),
    (
        make_source(virtual_keys=[make_key(provider_configs=[{"provider": "openai", "key_ids": ["other"]}])]),
        "some keys of a provider",
    ),
    (make_source(virtual_keys=[make_key(provider_configs=[{"provider": "cohere"}])]), "was not carried"),
    (
        make_source(
            rate_limits=[{"id": "r", "request_max_limit": 5, "request_reset_duration": "1h"}],
            virtual_keys=[make_key(rate_limit_id="r")],
        ),
        "this period",
    ),
    (
        {**make_source(), "mcp": {"client_configs": []}, "plugins": [{"name": "semantic_cache", "enabled": True}]},
        "plugins of Bifrost",
    ),
    ({}, "the file has none"),
]


def test_what_conf_cannot_state_is_reported_with_the_reason() -> None:
    reports = [(expected, "\n".join(read_bifrost(source).report.format_lines())) for source, expected in LOSSES]
    assert [(expected, report) for expected, report in reports if expected not in report] == []


def test_a_key_does_not_reach_providers_that_it_does_not_allow() -> None:
    source = make_source(
        virtual_keys=[make_key(provider_configs=[{"provider": "openai", "allowed_models": ["gpt-4o"]}])]
    )
    source["providers"]["groq"] = {"keys": [{"value": "v", "models": ["gpt-4o"]}]}
    builder = read_bifrost(source)
    assert len(builder.models["gpt-4o"]["targets"]) == 2
    assert builder.keys[0]["models"] == ["openai/gpt-4o"]
    assert any("gpt-4o: other providers serve it too" in line for line in builder.report.format_lines())


def test_an_empty_list_means_all_in_version_1_only() -> None:
    source = make_source(virtual_keys=[make_key(provider_configs=[{"provider": "openai"}])])
    assert read_bifrost(source).keys == []
    models = read_bifrost({**source, "version": 1}).keys[0]["models"]
    assert set(models) == {"openai/*", "gpt-4o"}


def test_azure_deployments_and_model_bounds_are_carried() -> None:
    deployments = {"endpoint": "https://acme.openai.azure.com/", "deployments": {"gpt-4o": "my-deployment"}}
    source = make_source(
        budgets=[{"id": "b", "max_limit": 5, "reset_duration": "1d"}],
        model_configs=[{"id": "m", "model_name": "gpt-4o", "provider": "azure", "budget_ids": ["b"]}],
        providers=[{"name": "openai", "budget_id": "b"}],
    )
    source["providers"]["azure"] = {
        "keys": [{"value": "env.AZURE", "models": ["gpt-4o"], "azure_key_config": deployments}]
    }
    builder = read_bifrost(source)
    assert builder.models["azure/gpt-4o"] == {
        "provider": "azure",
        "model": "my-deployment",
        "limits": {"usd_per_day": 5},
    }
    assert builder.providers["azure"]["base_url"] == "https://acme.openai.azure.com"
    assert builder.providers["openai"]["limits"] == {"usd_per_day": 5}
    assert len(builder.models["gpt-4o"]["targets"]) == 2
