"""`check --online`: every provider is asked for its models; what does not work is a fault with its line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.support.upstream import Upstream, answer
from tornado_gate.cli import cli
from tornado_gate.types.vendors import MOST_LISTED_MODELS

KEY = "sk-a-secret-of-a-test-0123"
CONF = f"""\
plugins: {{local: true, openai: true, anthropic: true, gemini: true}}
providers:
  local: {{plugin: local}}
  openai: {{plugin: openai, base_url: URL/o/v1, api_key: {KEY}}}
  claude: {{plugin: anthropic, base_url: URL/a, api_key: {KEY}}}
  gemini: {{plugin: gemini, base_url: URL/g/v1beta, api_key: {KEY}}}
models:
  local-chat: {{provider: local}}
  gpt-4o: {{provider: openai}}
  smart:
    targets:
      - {{provider: openai, model: gpt-4o-mini}}
      - {{provider: claude, model: claude-sonnet-4-5}}
  flash: {{provider: gemini, model: gemini-2.5-flash}}
  "openai/*": {{provider: openai}}
"""


def make_list(*names: str, member: str = "data", name: str = "id") -> str:
    return json.dumps({member: [{name: one} for one in names]})


@pytest.fixture(scope="module")
def shared() -> Iterator[Upstream]:
    upstream = Upstream.start()
    yield upstream
    upstream.stop()


@pytest.fixture
def upstream(shared: Upstream) -> Upstream:
    shared.reset()
    shared.script(
        answer(make_list("gpt-4o", "gpt-4o-mini"), path="/o/v1/models"),
        answer(make_list("claude-sonnet-4-5-20250929"), path="/a/v1/models"),
        answer(make_list("models/gemini-2.5-flash", member="models", name="name"), path="/g/v1beta/models"),
    )
    return shared


def check(folder: Path, upstream: Upstream, conf: str = CONF) -> Result:
    file = folder / "gate.yaml"
    file.write_text(conf.replace("URL", upstream.url), encoding="utf-8")
    result = CliRunner().invoke(cli, ["check", "--online", "--conf", str(file)])
    assert KEY not in result.output
    return result


def test_providers_that_work_are_listed(upstream: Upstream, tmp_path: Path) -> None:
    result = check(tmp_path, upstream)
    assert result.exit_code == 0, result.output
    assert "providers.openai: The vendor answered and lists 2 models." in result.output
    for name in ("local", "claude", "gemini"):
        assert f"providers.{name}: The vendor answered" in result.output
    assert {request.headers.get("authorization") for request in upstream.requests if "/o/" in request.path} == {
        f"Bearer {KEY}"
    }


def test_a_model_that_the_vendor_does_not_have_is_a_fault_with_a_suggestion(upstream: Upstream, tmp_path: Path) -> None:
    conf = CONF.replace("gpt-4o-mini}", "gpt-4o-mni}").replace("gemini-2.5-flash", "bard")
    result = check(tmp_path, upstream, conf)
    assert result.exit_code == 1
    file = tmp_path / "gate.yaml"
    assert (
        f"{file}:12: models.smart.targets.0.model: unknown model 'gpt-4o-mni' at the provider 'openai'; "
        "did you mean 'gpt-4o-mini'?" in result.output
    )
    assert f"{file}:14: models.flash.model: " in result.output
    assert "unknown model 'bard' at the provider 'gemini'; allowed: gemini-2.5-flash" in result.output


def test_a_refused_key_and_an_address_without_an_answer_are_faults(upstream: Upstream, tmp_path: Path) -> None:
    upstream.reset()
    upstream.script(answer('{"error": {"message": "Incorrect API key"}}', status=401, path="/o"))
    conf = CONF.replace("URL/a", "http://127.0.0.1:9").replace("URL/g/v1beta", "URL/nowhere")
    result = check(tmp_path, upstream, conf)
    assert result.exit_code == 1
    faults = {match[1]: match[2] for match in re.finditer(r"gate\.yaml:(\d+): providers\.\w+: (.*)", result.output)}
    assert "refused the API key" in faults["4"]
    assert faults.keys() == {"4", "5", "6"}


def test_each_of_several_keys_is_tested(upstream: Upstream, tmp_path: Path) -> None:
    upstream.reset()
    upstream.script(
        answer(make_list("gpt-4o", "gpt-4o-mini"), path="/o"),
        answer('{"error": {"message": "Incorrect API key"}}', status=401, path="/o"),
    )
    conf = CONF.partition("  claude:")[0].replace(f"api_key: {KEY}", "api_keys: [key-one-of-a-test, key-two-of-a-test]")
    result = check(tmp_path, upstream, f"{conf}models: {{gpt-4o: {{provider: openai}}}}\n")
    assert result.exit_code == 1
    assert (
        "providers.openai: key 1 of 2: The vendor answered" in result.output
        or "key 2 of 2: The vendor answered" in result.output
    )
    assert re.search(r"gate\.yaml:4: providers\.openai: key [12] of 2: The vendor refused the API key", result.output)
    assert {request.headers["authorization"] for request in upstream.requests} == {
        "Bearer key-one-of-a-test",
        "Bearer key-two-of-a-test",
    }


def test_an_invalid_file_is_not_checked_online(upstream: Upstream, tmp_path: Path) -> None:
    result = check(tmp_path, upstream, CONF.replace("{provider: gemini", "{provider: gmini"))
    assert result.exit_code == 1
    assert "did you mean 'gemini'" in result.output
    assert upstream.requests == []


def test_a_model_behind_the_end_of_a_cut_list_is_a_warning(upstream: Upstream, tmp_path: Path) -> None:
    upstream.reset()
    upstream.script(
        answer(make_list(*(f"gpt-{number}" for number in range(MOST_LISTED_MODELS + 1))), path="/o/v1/models"),
    )
    conf = """
plugins: {openai: true}
providers: {openai: {plugin: openai, base_url: URL/o/v1, api_key: a-key-of-the-upstream}}
models: {last: {provider: openai, model: gpt-4o}}
"""
    result = check(tmp_path, upstream, conf)
    assert result.exit_code == 0, result.output
    assert "unknown model 'gpt-4o'" in result.output
