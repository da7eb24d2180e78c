"""What acme logs, and its settings."""

import asyncio

import pytest

from tornado_gate import PluginEntry
from tornado_gate.errors import ConfigError
from tornado_gate.plugins.host import PluginHost
from tornado_gate.testing import call_to, chunks_of
from tornado_gate.types import UpstreamResponse
from tornado_gate_acme import Acme


async def respond() -> UpstreamResponse:
    return UpstreamResponse(chunks=chunks_of([b"{}"]))


def test_its_hooks_are_those_of_a_wrapper() -> None:
    plugin = PluginHost().add("under-test", Acme)
    assert plugin.wrapper
    assert plugin.configurable


@pytest.mark.parametrize(("slow_seconds", "lines"), [(0.0, 1), (60.0, 0)])
def test_only_slow_responses_are_logged(slow_seconds: float, lines: int, caplog: pytest.LogCaptureFixture) -> None:
    response = asyncio.run(Acme(slow_seconds).measure(call_to(), respond()))
    assert response.status == 200
    assert len(caplog.records) == lines


def test_unknown_settings_are_faults() -> None:
    with pytest.raises(ConfigError, match="slow_seconds"):
        Acme().configure_plugin(PluginEntry(name="acme", settings={"slow_second": 1}))
