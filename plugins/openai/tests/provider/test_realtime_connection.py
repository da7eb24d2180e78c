"""Where a conversation by voice is connected, and with what."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

import tornado_gate_openai.provider as plugin
from tornado_gate import ProviderEntry
from tornado_gate.plugins.host import PluginHost
from tornado_gate.plugins.lanes import ProviderLane
from tornado_gate.testing import KEY, call_to
from tornado_gate.types import RealtimeRequest, UpstreamRequest


def connection(base_url: str = "https://upstream.test/v1", **settings: Any) -> UpstreamRequest:
    host = PluginHost()
    lane = ProviderLane(host, host.add("under-test", plugin), [])
    entry = ProviderEntry(name="test", base_url=base_url, api_key=KEY, settings=settings)
    asked = lane.translate_request(call_to(lane, entry, operation="realtime"), RealtimeRequest(model="test-model"))
    assert inspect.isawaitable(asked)
    return asyncio.run(asked)


def test_the_address_is_that_of_a_websocket_with_the_upstreams_model() -> None:
    made = connection()
    assert made.url == "wss://upstream.test/v1/realtime?model=upstream-model"
    assert made.headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in made.url
    assert "content-type" not in made.headers
    assert made.context == "current"


def test_a_plain_upstream_is_connected_plainly() -> None:
    assert connection("http://127.0.0.1:9/v1").url.startswith("ws://127.0.0.1:9/v1/realtime?")


@pytest.mark.parametrize(("settings", "sent"), [({}, None), ({"realtime_dialect": "beta"}, "realtime=v1")])
def test_the_older_dialect_is_asked_for_where_conf_says_so(settings: dict[str, str], sent: str | None) -> None:
    made = connection(**settings)
    assert made.headers.get("openai-beta") == sent
    assert made.context == settings.get("realtime_dialect", "current")
