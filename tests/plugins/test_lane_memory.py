"""What a configuration has made goes with it: a reload excludes it from garbage collection."""

from __future__ import annotations

import gc

import pluggy
import pytest

from tests.support.gates import FakeProvider, make_host
from tornado_gate.plugins.hook_calls import Lane
from tornado_gate.plugins.host import PluginHost
from tornado_gate.plugins.lanes import FormatLane, ProviderLane


def count_managers() -> int:
    return sum(type(one) is pluggy.PluginManager for one in gc.get_objects())


def make_format_lane(host: PluginHost) -> Lane:
    return FormatLane(host, host.plugins["plain"], [])


def make_provider_lane(host: PluginHost) -> Lane:
    return ProviderLane(host, host.plugins["fake"], [])


@pytest.mark.qa
@pytest.mark.parametrize("make", [make_format_lane, make_provider_lane])
def test_a_lane_is_freed_without_a_collection(make: object) -> None:
    assert callable(make)
    host = make_host({"fake": FakeProvider()})
    gc.collect()
    gc.disable()
    try:
        before = count_managers()
        lane = make(host)
        assert lane.hooks
        del lane
        assert count_managers() <= before
    finally:
        gc.enable()
