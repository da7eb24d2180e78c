"""LiteLLM's config.yaml as a configuration, which is checked and served."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cli.importing.support import FILES, import_conf, run
from tests.support.control import call
from tests.support.gateway import Gateway
from tests.support.upstream import Upstream
from tests.support.wire_answers import make_answer
from tornado_gate.cli.importing.litellm import read_litellm

VENDOR_KEYS = (
    *("AZURE_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GROQ_API_KEY", "MISTRAL_API_KEY"),
    *("DEEPSEEK_API_KEY", "XAI_API_KEY", "OPENROUTER_API_KEY", "TOGETHERAI_API_KEY", "FIREWORKS_API_KEY"),
    *("PERPLEXITYAI_API_KEY", "CEREBRAS_API_KEY", "NVIDIA_NIM_API_KEY", "DEEPINFRA_API_KEY"),
)
MASTER_KEY = "sk-master-0123456789abcdef"


@pytest.fixture(scope="module")
def upstream() -> Iterator[Upstream]:
    upstream = Upstream.start()
    for wire_format, path in (("messages", "/v1/messages"), ("generate", "/v1beta/models"), ("chat", "/")):
        upstream.script(replace(make_answer(wire_format, ["Hello"], stream=False), path=path, repeat=True))
    yield upstream
    upstream.stop()


@pytest.fixture(scope="module")
def variables(upstream: Upstream) -> dict[str, str]:
    bases = {f"{name}_API_BASE": f"{upstream.url}/v1" for name in ("OPENAI", "ANTHROPIC")}
    bases |= {"GEMINI_API_BASE": f"{upstream.url}/v1beta", "AZURE_API_BASE": upstream.url}
    keys = {name: f"key-of-{name.lower()}" for name in VENDOR_KEYS}
    return {**bases, **keys, "LITELLM_MASTER_KEY": MASTER_KEY}


def test_a_conf_of_thirty_models_is_imported_checked_and_served(
    upstream: Upstream, variables: dict[str, str], tmp_path: Path
) -> None:
    output = tmp_path / "out" / "gate.yaml"
    output.parent.mkdir()
    result = run("import", "litellm", FILES / "litellm.yaml", "--output", output)
    assert result.exit_code == 0, result.output
    assert "not carried" not in result.output
    assert output.stat().st_mode & 0o777 == 0o600
    text = output.read_text(encoding="utf-8")
    checked = run("check", "--conf", output, variables=variables)
    assert checked.exit_code == 0, checked.output
    gateway = Gateway.start(text, tmp_path, environment=variables)
    try:
        models = [model["id"] for model in call("GET", f"{gateway.url}/v1/models", key=MASTER_KEY)["data"]]
        assert len(models) >= 30
        for model in [*models, "openai/gpt-4.1-nano"]:
            body = {"model": model, "messages": [{"role": "user", "content": "Hi"}]}
            answer = call("POST", f"{gateway.url}/v1/chat/completions", body, key=MASTER_KEY)
            assert answer["choices"][0]["message"]["content"] == "Hello", model
    finally:
        gateway.stop()
    requests = upstream.requests
    asked = {(request.headers.get("authorization"), request.json.get("model")) for request in requests}
    assert ("Bearer key-of-groq_api_key", "llama-3.3-70b-versatile") in asked
    assert ("Bearer key-of-openrouter_api_key", "qwen/qwen3-32b") in asked
    assert ("Bearer key-of-openai_api_key", "gpt-4.1-nano") in asked, "the wildcard serves models that are not listed"
    assert "/v1beta/models/gemini-2.5-pro:generateContent" in {request.path for request in requests}


def test_deployments_become_targets_with_weights_limits_and_fallbacks(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text((FILES / "litellm.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    _, conf = import_conf("litellm", file)
    models, providers = conf["models"], conf["providers"]
    first, second = models["gpt-4o"]["targets"]
    assert (first["model"], first["weight"], second["weight"]) == ("gpt-4o-eu", 1, 4)
    assert providers[first["provider"]] == {
        "plugin": "openai",
        "preset": "azure-openai",
        "base_url": "${AZURE_API_BASE:-AZURE_ADDRESS}",
        "api_key": "${AZURE_API_KEY}",
        "limits": {"requests_per_minute": 60},
        "timeouts": {"total": 120, "whole": 120},
    }
    assert providers[second["provider"]]["limits"] == {"requests_per_minute": 240}
    assert models["gpt-4"]["targets"][0] == first, "an alias has the targets of its model"
    assert models["fast"]["model"] == "gpt-4o-mini"
    assert models["gpt-4o"]["fallback"] == ["claude-sonnet.fallback"]
    assert models["claude-sonnet"]["fallback"] == ["gpt-4o", "openai/gpt-4.1"]
    assert models["openai/gpt-4.1"]["model"] == "gpt-4.1", "a fallback to a name of a wildcard gets an entry"
    assert models["o4-mini"]["output_token_limit"] == 100000
    assert conf["prices"] == {"o3": {"input": 2, "output": 8}}
    assert conf["keys"] == [{"name": "master", "key": "${LITELLM_MASTER_KEY}", "role": "administrator"}]
    assert conf["circuits"] == {"failures": 4, "open_seconds": 30}
    assert conf["retries"] == {"same_target": 1}


def make_deployment(name: str = "m", **parameters: Any) -> dict[str, Any]:
    return {"model_name": name, "litellm_params": {"model": "openai/gpt-4o", "api_key": "k", **parameters}}


LOSSES: list[tuple[dict[str, Any], str]] = [
    ({"model_list": [make_deployment(model="bedrock/anthropic.claude")]}, "AWS"),
    ({"model_list": [make_deployment(model="vertex_ai/gemini-pro")]}, "service accounts"),
    ({"model_list": [make_deployment("*", model="*")]}, "add a wildcard for each vendor"),
    ({"model_list": [make_deployment(model="azure/x")]}, "states no api_base"),
    ({"model_list": [make_deployment(temperature=0.2)]}, "litellm_params.temperature"),
    ({"model_list": [make_deployment(tags=["a"])]}, "not routed by tags"),
    ({"model_list": [make_deployment("two words")]}, "must not contain spaces"),
    (
        {"model_list": [make_deployment()], "router_settings": {"routing_strategy": "usage-based-routing"}},
        "no such strategy",
    ),
    ({"model_list": [make_deployment()], "router_settings": {"fallbacks": [{"m": ["other"]}]}}, "'m' to 'other'"),
    ({"model_list": [make_deployment()], "litellm_settings": {"callbacks": ["otel"]}}, "plugin otel"),
    (
        {"model_list": [make_deployment()], "litellm_settings": {"max_budget": 5, "budget_duration": "7d"}},
        "UTC day or month",
    ),
    (
        {"model_list": [make_deployment()], "general_settings": {"database_url": "postgresql://x"}},
        "name it too, with --database and --keys",
    ),
    ({"model_list": [make_deployment()], "guardrails": [{"guardrail_name": "g"}]}, "plugin redact"),
    ({"model_list": [make_deployment()], "environment_variables": {"A": "b"}}, "environment_variables.A"),
    ({"other": 1}, "has no models"),
    ({}, "has no models"),
]


def test_what_conf_cannot_state_is_reported_with_the_reason() -> None:
    reports = [(expected, "\n".join(read_litellm(source).report.format_lines())) for source, expected in LOSSES]
    assert [report for expected, report in reports if expected not in report] == []


WEIGHTS: list[tuple[list[dict[str, Any]], list[int]]] = [
    ([{"weight": 0.7}, {"weight": 0.3}], [7, 3]),
    ([{"rpm": 6}, {"rpm": 6}], [1, 1]),
    ([{"rpm": 900}, {"rpm": 100}, {}], [9000, 1000, 1]),
    ([{"tpm": 1000}, {"tpm": 3000}], [1, 3]),
    ([{}, {"rpm": 10}], [1, 1]),
    ([{"order": 1}, {"order": 2}], [1_000_000, 1]),
    ([{"weight": 0}, {"weight": 0}], [1, 1]),
]


def test_weights_are_those_of_simple_shuffle() -> None:
    for parameters, expected in WEIGHTS:
        deployments = [make_deployment(api_key=f"k{index}", **own) for index, own in enumerate(parameters)]
        targets = read_litellm({"model_list": deployments}).models["m"]["targets"]
        assert [target["weight"] for target in targets] == expected, parameters


def test_the_report_says_how_an_order_is_stated() -> None:
    deployments = [make_deployment(api_key=f"k{order}", order=order) for order in (1, 2)]
    assert any("`order` of deployments" in note for note in read_litellm({"model_list": deployments}).report.notes)
    assert not any("`order`" in note for note in read_litellm({"model_list": [make_deployment(order=1)]}).report.notes)


ADDRESSES = {
    "http://host:8000": {"base_url": "http://host:8000"},
    "http://host:8000/v1": {"base_url": "http://host:8000/v1"},
    "https://host/llm/openai": {"base_url": "https://host/llm/openai", "version_path": ""},
    "https://api.openai.com/v1": {"base_url": "https://api.openai.com/v1", "preset": "openai"},
}


def test_the_address_of_an_upstream_is_the_one_that_litellm_calls() -> None:
    for address, expected in ADDRESSES.items():
        builder = read_litellm({"model_list": [make_deployment(api_base=address)]})
        assert list(builder.providers.values()) == [{"plugin": "openai", "api_key": "k", **expected}], address


def test_the_address_of_an_azure_resource_is_its_host() -> None:
    host = "https://openai-gpt-4-test.openai.azure.com"
    for address in (host, f"{host}/", f"{host}/openai/deployments/x"):
        builder = read_litellm({"model_list": [make_deployment(model="azure/x", api_base=address)]})
        assert builder.providers["azure-openai"]["base_url"].rstrip("/") == host


def test_an_existing_file_is_replaced_only_when_told(tmp_path: Path) -> None:
    output = tmp_path / "gate.yaml"
    output.write_text("mine", encoding="utf-8")
    result = run("import", "litellm", FILES / "litellm.yaml", "--output", output)
    assert (result.exit_code, output.read_text(encoding="utf-8")) == (1, "mine")
    assert "--force" in result.output
    assert run("import", "litellm", FILES / "litellm.yaml", "--output", output, "--force").exit_code == 0


UNREADABLE = ["model_list: [*]", "a: [", "\x00", "a: &a [1]\nb: *c"]


def test_a_file_that_cannot_be_read_is_exit_code_1_with_the_reason(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    for text in UNREADABLE:
        file.write_text(text, encoding="utf-8")
        result = run("import", "litellm", file)
        assert (result.exit_code, "Traceback" in result.output) == (1, False), text
        assert str(file) in result.output
    bomb = "a: &a [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
        f"{new}: &{new} [{', '.join(f'*{old}' for _ in range(10))}]\n"
        for old, new in zip("abcdefg", "bcdefgh", strict=True)
    )
    file.write_text(bomb, encoding="utf-8")
    assert "aliases expanded" in run("import", "litellm", file).output
    for gateway in ("litellm", "portkey", "bifrost"):
        file.write_text('{"model_list": ' + "[" * 900 + "]" * 900 + "}", encoding="utf-8")
        assert "is nested too deeply" in run("import", gateway, file).output, gateway


def test_without_an_output_the_conf_goes_to_stdout_and_the_report_to_stderr(tmp_path: Path) -> None:
    result = run("import", "litellm", FILES / "litellm.yaml")
    assert result.stdout.startswith("# Imported from LiteLLM: litellm.yaml")
    assert "set these environment variables: AZURE_API_KEY" in result.stderr


def test_an_output_that_is_no_file_is_refused_and_unchanged(tmp_path: Path) -> None:
    for output, expected in (
        (Path("/dev/null"), "is not a file"),
        (tmp_path, "is not a file"),
        (tmp_path / "no" / "x", "No such"),
    ):
        mode = output.stat().st_mode if output.exists() else 0
        result = run("import", "litellm", FILES / "litellm.yaml", "--output", output, "--force")
        assert (result.exit_code, expected in result.output) == (1, True), result.output
        assert (output.stat().st_mode if output.exists() else 0) == mode
