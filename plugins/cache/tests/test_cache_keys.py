"""The requests that the cache may serve, equality of requests, and the cache's settings."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tornado_gate import PluginEntry, types
from tornado_gate.errors import ConfigError, InvalidField
from tornado_gate.testing import call_to, chat
from tornado_gate_cache import Cache, read_wishes
from tornado_gate_cache.keys import make_key, may_cache

BODY: dict[str, Any] = {"model": "m", "messages": []}


def verbatim(body: dict[str, Any], *, issued: bool = False) -> types.VerbatimRequest:
    objects = types.IssuedObjects() if issued else None
    return types.VerbatimRequest(
        wire_format="x", operation="chat", path="/x", raw=b"{}", body={**BODY, **body}, issued=objects
    )


def test_what_depends_on_more_than_the_request_is_not_cached() -> None:
    refused: list[dict[str, Any]] = [
        {"store": True}, {"background": True}, {"previous_response_id": "resp_1"}, {"conversation": {"id": "conv_1"}},
        {"container": "c"}, {"cachedContent": "cachedContents/1"}, {"web_search_options": {}}, {"mcp_servers": [{}]},
        {"tools": [{"type": "web_search"}]}, {"tools": [{"googleSearch": {}}]}, {"tools": ["odd"]},
    ]  # fmt: skip
    accepted: list[dict[str, Any]] = [
        {}, {"store": False}, {"previous_response_id": None}, {"tools": [{"type": "function", "name": "f"}]},
        {"tools": [{"name": "f", "input_schema": {}}]}, {"tools": [{"functionDeclarations": []}]}, {"tools": None},
    ]  # fmt: skip
    assert [body for body in refused if may_cache("all", verbatim(body))] == []
    assert [body for body in accepted if not may_cache("all", verbatim(body))] == []
    assert not may_cache("all", verbatim({}, issued=True)), "such a route stores by default"
    assert may_cache("all", verbatim({"store": False}, issued=True))
    server = types.VendorTool(wire_format="x", value={"type": "web_search"})
    assert not may_cache("all", types.replace(chat(), tools=(server,)))


def test_only_temperature_zero_is_deterministic() -> None:
    for temperature, expected in ((0, True), (0.0, True), (0.5, False), (None, False), (False, False)):
        assert may_cache("deterministic", verbatim({"temperature": temperature})) is expected, temperature
        nested = {"generationConfig": {"temperature": temperature}}
        assert may_cache("deterministic", verbatim(nested)) is expected, nested
    assert may_cache("deterministic", types.replace(chat(), temperature=0.0))
    assert not may_cache("deterministic", chat())


def key_of(owner: str = "a", call: types.Call | None = None, **changes: Any) -> bytes | None:
    outgoing = types.UpstreamRequest(url="http://upstream.test/v1/chat", headers={"X-Beta": "1"}, body=b"{}")
    return make_key(call or call_to(), types.replace(outgoing, **changes), owner)


def test_a_key_is_that_of_the_owner_and_of_all_that_is_sent() -> None:
    same = key_of()
    assert same == key_of() is not None
    target = call_to().target
    others = [
        key_of("b"),
        key_of(url="http://upstream.test/v1/other"),
        key_of(body=b"{} "),
        key_of(headers={"X-Beta": "2"}),
        key_of(call=call_to().replace(target=types.replace(target, provider="other"))),
        key_of(call=call_to().replace(target=types.replace(target, upstream_model="other"))),
        key_of(call=call_to().replace(target=types.replace(target, api_key="another-key-0123456789"))),
    ]
    assert same not in others
    assert len(set(others)) == len(others)
    assert same == key_of(
        headers={"x-beta": "1", "traceparent": "00-1-1-01", "Authorization": f"Bearer {target.api_key}"}
    )
    assert [key_of(method="GET"), key_of(body=None), key_of(context=1), key_of(body=b'{"file_id":"f"}')] == [None] * 4


TEXTS = st.text(max_size=6)
REQUESTS = st.tuples(
    TEXTS, TEXTS, st.dictionaries(st.sampled_from(["a", "b", "c"]), TEXTS, max_size=3), st.binary(max_size=6)
)


@settings(max_examples=200)
@given(REQUESTS, REQUESTS)
def test_different_requests_have_different_keys(one: Any, other: Any) -> None:
    keys = [
        key_of(f"o{owner}", url=f"u{url}", headers=headers, body=body) for owner, url, headers, body in (one, other)
    ]
    assert (keys[0] == keys[1]) == (one == other)


def test_the_header_of_a_request_is_checked() -> None:
    assert read_wishes("") == frozenset()
    assert read_wishes("No-Cache, no-store") == {"no-cache", "no-store"}
    with pytest.raises(InvalidField, match="no-store"):
        read_wishes("max-age=3")


@pytest.mark.parametrize(
    ("given", "place", "fault"),
    [
        ({"caches": {"chat": "some"}}, ("caches", "chat"), "all"),
        ({"caches": {"videos": "all"}}, ("caches", "videos"), "embeddings"),
        ({"scope": "everybody"}, ("scope",), "account"),
        ({"keep_seconds": 0}, ("keep_seconds",), "1"),
        ({"max_byte": 5}, ("max_byte",), "max_bytes"),
    ],
)
def test_faults_of_the_settings_say_what_is_allowed(given: dict[str, Any], place: tuple[str, ...], fault: str) -> None:
    with pytest.raises(ConfigError) as raised:
        Cache().configure_plugin(PluginEntry(name="cache", settings=given))
    ((path, message),) = raised.value.faults
    assert tuple(path)[: len(place)] == place
    assert fault in message


def test_a_reload_with_equal_settings_keeps_the_answers() -> None:
    entry = PluginEntry(name="cache", settings={"keep_seconds": "5m"})
    first, second = Cache().configure_plugin(entry), Cache().configure_plugin(entry)
    assert first._store is second._store
    assert Cache().configure_plugin(PluginEntry(name="cache", settings={}))._store is not first._store
