"""Every answer matches the vendors' published API descriptions and, strictly, the types of their SDKs."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from qa.conformance.exchanges import all_exchanges, check, running_site
from qa.conformance.schemas import describe_documents, faults
from tests.support.upstream import Upstream
from tests.support.vendor_chats import HEADERS, SHAPES, VENDORS, Exchange, read_events

EXCHANGES = [exchange for group in all_exchanges().values() for exchange in group]


INPUT = [
    {"role": "user", "content": "Look"},
    {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
    {"role": "assistant", "content": "Hello"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hello"}]},
    {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "call_1", "output": "blue"},
    {"role": "developer", "content": "Be brief."},
]
"""Items as requests may have them."""


@pytest.fixture(scope="module")
def url(upstream_process: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_site(tmp_path_factory.mktemp("answers"), upstream_process) as url:
        yield url


@pytest.mark.parametrize("exchange", EXCHANGES, ids=lambda exchange: exchange.name)
def test_an_answer_matches_the_vendors_schemas(exchange: Exchange, url: str, upstream: Upstream) -> None:
    assert check(url, upstream, exchange) == []


@pytest.mark.representative
def test_a_stored_response_and_its_input_match_them(url: str) -> None:
    with httpx.Client(base_url=f"{url}/v1/responses", headers=HEADERS, trust_env=False, timeout=20) as client:
        made = client.post("", json={"model": "local-chat", "input": INPUT}).json()
        assert faults("response", client.get(f"/{made['id']}").content) == []
        items = client.get(f"/{made['id']}/input_items", params={"order": "asc"})
        assert faults("input items", items.content) == []
        assert len(items.json()["data"]) == len(INPUT)
        hello = client.post("", json={"model": "local-chat", "input": "Hi", "stream": False, "store": True}).json()
        assert faults("input items", client.get(f"/{hello['id']}/input_items").content) == []


@pytest.mark.parametrize("calls", [False, True])
@pytest.mark.parametrize("vendor", VENDORS)
def test_the_scripted_vendors_match_them_too(vendor: str, calls: bool) -> None:
    for streamed in (False, True):
        text = "".join(str(step) for step in VENDORS[vendor](streamed=streamed, calls=calls).steps)
        bodies = read_events(text) if streamed else [text]
        assert bodies
        assert [fault for body in bodies for fault in faults(SHAPES[vendor][streamed], body)] == []


def test_the_documents_are_the_ones_that_their_descriptions_name() -> None:
    assert len(list(describe_documents())) == 3


@pytest.mark.representative
def test_the_schemas_find_missing_members_wrong_types_and_unknown_members() -> None:
    usage = '"usage": {"input_tokens": 1, "output_tokens": "2", "colour": 3}'
    found = faults(
        "message", f'{{"id": "m", "type": "message", "role": "assistant", "content": [], "model": "x", {usage}}}'
    )
    assert "anthropic document: $: 'stop_reason' is a required property" in found
    assert "anthropic document: $.usage.output_tokens: '2' is not of type 'integer'" in found
    assert "anthropic SDK: usage.output_tokens: Input should be a valid integer" in found
    whole = (
        '{"object": "list", "data": [], "model": "m", "usage": {"prompt_tokens": 1, "total_tokens": 1}, "colour": 1}'
    )
    assert faults("embeddings", whole) == ["openai SDK: colour is not in the type"]
    assert faults("generated", '{"candidates": [{"colour": 1}]}') != []
