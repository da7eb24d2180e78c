"""Vercel's AI SDK with a web search that another vendor runs: its parsers are stricter than those of the vendors' SDKs."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.support.gateway import Gateway
from tests.support.node import run_script
from tests.support.searches import CONF, QUERY, STREAMS, TEXT, TITLE, URL, WHOLE
from tests.support.upstream import Upstream, answer
from tests.test_crossings import KEY


@pytest.fixture(scope="module")
def one_gateway(upstream_process: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    conf = CONF.format(url=upstream_process.url, key=KEY)
    gateway = Gateway.start(conf, tmp_path_factory.mktemp("search"))
    yield gateway
    gateway.stop()


@pytest.fixture
def gateway(one_gateway: Gateway, upstream: Upstream) -> Gateway:
    return one_gateway


OWN = {"responses": "r-model", "anthropic": "a-model", "google": "g-model"}
PAIRS = [(wire_format, model) for wire_format, own in OWN.items() for model in WHOLE if model != own]


WITHOUT_TITLES = (("responses", "a-model"), ("responses", "g-model"), ("anthropic", "r-model"))
"""The SDK takes the sources of the search item first, which has no titles in the format of responses."""


@pytest.mark.parametrize(("wire_format", "model"), PAIRS)
def test_sources_and_searches_of_other_vendors_are_parsed(
    gateway: Gateway, upstream: Upstream, wire_format: str, model: str
) -> None:
    upstream.script(answer(json.dumps(WHOLE[model])), answer(STREAMS[model]))
    result = run_script("vercel-search.mjs", gateway.url, KEY, model, wire_format)
    assert result["errors"] == []
    assert result["text"] == result["streamed"] == TEXT
    for name in ("sources", "streamedSources"):
        assert {url for url, _ in result[name]} == {URL}
        if (wire_format, model) not in WITHOUT_TITLES:
            assert [URL, TITLE] in result[name]
    if wire_format == "anthropic" and model != "o-model":  # chat does not say what was searched
        assert result["calls"] == result["streamedCalls"] == [["web_search", {"query": QUERY}]]
    elif wire_format == "responses" and model != "o-model":
        assert [name for name, _ in result["calls"]] == [name for name, _ in result["streamedCalls"]] == ["web_search"]
