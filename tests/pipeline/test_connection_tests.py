"""The vendors that plugins offer, and the test of a connection: each vendor's model list in its exact form."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.upstream import Hang, Upstream, answer
from tornado_gate import config as conf
from tornado_gate.hookspecs import ProviderEntry
from tornado_gate.pipeline import connection_tests
from tornado_gate.pipeline.connection_tests import ConnectionTest, check_connection
from tornado_gate.pipeline.snapshot_builder import build
from tornado_gate.pipeline.vendors import find_vendor, list_vendors
from tornado_gate.plugins.host import PluginHost
from tornado_gate.plugins.lanes import ProviderLane

KEY = "a-key-of-these-tests-0123456789"


@pytest.fixture(scope="module")
def vendor() -> Iterator[Upstream]:
    upstream = Upstream.start()
    yield upstream
    upstream.stop()


def check(folder: Path, plugin: str, base_url: str, model: str = "") -> ConnectionTest:
    text = (
        f"plugins: {{{plugin}: true}}\n"
        f"providers: {{mine: {{plugin: {plugin}, base_url: '{base_url}', api_key: {KEY}}}}}\n"
        f"models: {{known: {{provider: mine}}}}\n"
    )
    snapshot = build(conf.load(folder / "gate.yaml", {}, text=text), PluginHost())
    return asyncio.run(check_connection(snapshot, "mine", model))


OPENAI = """{"object": "list", "data": [
  {"id": "gpt-5.4", "object": "model", "created": 1700000000, "owned_by": "openai"}, {"id": "m", "context_length": 4096},
  {"object": "model"}, 3]}"""
TOGETHER = '[{"id": "meta/llama", "type": "chat", "context_length": 131072}]'
ANTHROPIC = """{"data": [{"id": "claude-opus-4-5", "type": "model", "display_name": "Claude Opus 4.5", "max_input_tokens": 200000,
  "created_at": "2025-11-01T00:00:00Z"}], "has_more": false, "first_id": "claude-opus-4-5", "last_id": "claude-opus-4-5"}"""
GEMINI = """{"models": [{"name": "models/gemini-2.5-pro", "version": "2.5", "inputTokenLimit": 1048576,
  "supportedGenerationMethods": ["generateContent"]}]}"""


@pytest.mark.parametrize(
    ("plugin", "path", "header", "body", "models"),
    [
        ("openai", "/v1/models", "authorization", OPENAI, [("gpt-5.4", None), ("m", 4096)]),
        ("openai", "/v1/models", "authorization", TOGETHER, [("meta/llama", 131072)]),
        ("anthropic", "/v1/models?limit=1000", "x-api-key", ANTHROPIC, [("claude-opus-4-5", 200000)]),
        ("gemini", "/v1beta/models?pageSize=1000", "x-goog-api-key", GEMINI, [("gemini-2.5-pro", 1048576)]),
    ],
)  # fmt: skip
def test_the_models_of_a_vendor_are_listed(
    plugin: str,
    path: str,
    header: str,
    body: str,
    models: list[tuple[str, int | None]],
    vendor: Upstream,
    tmp_path: Path,
) -> None:
    vendor.reset()
    vendor.script(answer(body))
    result = check(tmp_path, plugin, vendor.url)
    assert (result.ok, [(model.name, model.context_tokens) for model in result.models]) == (True, models), result
    request = vendor.requests[0]
    assert (request.method, request.path) == ("GET", path)
    assert request.headers[header].endswith(KEY)


@pytest.mark.parametrize("plugin", ["openai", "anthropic", "gemini"])
def test_what_goes_wrong_is_told_without_the_key(plugin: str, vendor: Upstream, tmp_path: Path) -> None:
    vendor.reset()
    vendor.script(
        answer(f'{{"error": {{"message": "bad key {KEY}"}}}}', status=401),
        answer("<html>not an API</html>"),
        answer('{"object": "error"}'),
        answer(f'{{"error": {{"message": "no {KEY}"}}}}', status=404),
    )
    told = [check(tmp_path, plugin, vendor.url) for _ in range(4)]
    assert [result.ok for result in told] == [False] * 4
    assert told[0].message == "The vendor refused the API key (status 401). Check the key and its account."
    assert told[2].message == "The provider 'mine' answered without a list of models. Check its base_url."
    assert KEY not in repr(told)


def test_a_vendor_without_an_answer_is_given_up(
    vendor: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vendor.reset()
    vendor.script(answer(Hang()))
    monkeypatch.setattr(connection_tests, "TEST_SECONDS", 0.3)
    result = check(tmp_path, "openai", vendor.url)
    assert result.ok is False


def test_a_plugin_that_cannot_list_models_and_has_no_chat_is_not_called_good(tmp_path: Path) -> None:
    result = check(tmp_path, "dashscope", "http://127.0.0.1:9")
    assert (result.ok, result.message.startswith("Not tested")) == (False, True)


def test_each_vendor_has_one_id_and_settings_that_its_plugin_accepts() -> None:
    offers = list_vendors(None)
    assert max(Counter(offer.id for offer in offers).values()) == 1
    assert {"openai", "anthropic", "gemini", "deepseek", "mistral", "openai/gemini", "openai/"} <= {
        offer.id for offer in offers
    }
    assert not any(offer.plugin in ("cascade", "redact", "cache") for offer in offers)
    host = PluginHost()
    for offer in offers:
        vendor = offer.vendor
        if vendor.name and vendor.name != "kling":
            base_url = vendor.base_url or "https://resource.example"
            entry = ProviderEntry(name="x", base_url=base_url, api_key="key", settings=vendor.settings)
            assert ProviderLane(host, host.load(offer.plugin), []).configure(entry).operations, offer
    found = find_vendor(offers, "openai")
    assert found is not None
    assert found.vendor.settings == {"preset": "openai"}
