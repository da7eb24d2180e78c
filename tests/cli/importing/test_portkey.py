"""Configs of Portkey as a configuration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.cli.importing.support import import_conf, run, write_with_upstream
from tests.support.control import call
from tests.support.gateway import Gateway
from tests.support.upstream import Upstream, answer
from tests.support.wire_answers import make_answer
from tornado_gate.cli.importing.portkey import read_portkey

KEY = "a-key-of-a-test-0123"


def test_nested_targets_become_weights_and_virtual_keys_providers(tmp_path: Path) -> None:
    result, conf = import_conf("portkey", write_with_upstream("portkey.json", tmp_path, "http://127.0.0.1:9"))
    assert result.exit_code == 2
    assert "override_params.temperature" in result.output
    assert "on_status_codes" in result.output
    assert "repair" not in result.output
    assert conf["models"]["pc-main"] == conf["models"]["pc-main/*"]
    assert conf["models"]["pc-main"] == {
        "targets": [
            {"provider": "openai-prod", "model": "gpt-4o", "weight": 1000000},
            {"provider": "compatible", "model": "gpt-4o-mini", "weight": 333333},
            {"provider": "anthropic-prod", "model": "claude-sonnet-4-5", "weight": 1},
        ],
        "retries": {"same_target": 3},
    }
    assert conf["models"]["pc-open/*"] == {"provider": "groq-team"}
    assert conf["providers"]["openai-prod"] == {
        **{"plugin": "openai", "preset": "openai", "api_key": "${OPENAI_PROD_API_KEY}"},
        **{"timeouts": {"first_event": 10, "whole": 10}, "limits": {"requests_per_minute": 300, "usd_per_month": 100}},
    }
    assert conf["plugins"]["cache"]["keep_seconds"] == 600


def test_a_fallback_serves_when_the_first_target_fails(tmp_path: Path) -> None:
    upstream = Upstream.start()
    upstream.script(answer('{"error": {"message": "busy"}}', status=500), make_answer("chat", ["Hello"], stream=False))
    targets = [{"provider": "openai", "api_key": f"key-{n}", "custom_host": f"{upstream.url}/v1"} for n in (1, 2)]
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"strategy": {"mode": "fallback"}, "targets": targets}), encoding="utf-8")
    result, _ = import_conf("portkey", file)
    assert result.exit_code == 0, result.output
    imported = (tmp_path / "imported.yaml").read_text(encoding="utf-8")
    gateway = Gateway.start(f"{imported}\nkeys: [{{name: a, key: {KEY}}}]\n", tmp_path)
    try:
        body = {"model": "any-model", "messages": [{"role": "user", "content": "Hi"}]}
        call("POST", f"{gateway.url}/v1/chat/completions", body, key=KEY)
    finally:
        gateway.stop()
    assert [request.headers["authorization"] for request in upstream.requests] == ["Bearer key-1", "Bearer key-2"]
    assert [request.json["model"] for request in upstream.requests] == ["any-model", "any-model"]
    upstream.stop()


OPENAI = {"provider": "openai", "api_key": "k"}
LOSSES: list[tuple[Any, str]] = [
    ({"provider": "bedrock", "aws_region": "eu-west-1"}, "AWS"),
    ({"virtual_key": "my-key-1a2b"}, "its vendor is unknown"),
    ({**OPENAI, "cache": {"mode": "semantic"}}, "similar requests"),
    ({**OPENAI, "input_guardrails": ["pii"]}, "plugin redact"),
    ({**OPENAI, "forward_headers": ["x-a"]}, "headers of callers"),
    (
        {"strategy": {"mode": "conditional", "conditions": [], "default": "b"}, "targets": [OPENAI, OPENAI]},
        "by conditions",
    ),
    (
        {
            "strategy": {"mode": "loadbalance"},
            "targets": [{"strategy": {"mode": "fallback"}, "targets": [OPENAI, {**OPENAI, "api_key": "l"}]}],
        },
        "inside of a load balance",
    ),
    ({}, "no config"),
    ([], "no config"),
]


def test_what_conf_cannot_state_is_reported_with_the_reason() -> None:
    reports = [(expected, "\n".join(read_portkey(source).report.format_lines())) for source, expected in LOSSES]
    assert [report for expected, report in reports if expected not in report] == []


def test_one_config_becomes_the_model_of_all_names() -> None:
    builder = read_portkey({"strategy": {"mode": "single"}, "targets": [OPENAI, {"provider": "groq"}]})
    assert builder.models == {"*": {"provider": "openai"}}
    azure = {"provider": "azure-openai", "api_key": "k", "resource_name": "acme", "deployment_id": "gpt4"}
    assert read_portkey(azure).models == {"*": {"provider": "azure-openai", "model": "gpt4"}}
    assert read_portkey(azure).providers["azure-openai"]["base_url"] == "https://acme.openai.azure.com"


def test_a_file_that_is_no_json_is_exit_code_1(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    for text in ("{", "\x00", "[" * 100_000):
        file.write_text(text, encoding="utf-8")
        assert run("import", "portkey", file).exit_code == 1
