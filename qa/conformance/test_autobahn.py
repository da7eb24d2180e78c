"""The Autobahn TestSuite's cases, against both ends of a WebSocket; those of large messages run in ``make conformance``."""

from __future__ import annotations

import asyncio

import pytest
import uvloop

from qa.conformance.autobahn import PROTOCOL, Outcome, check_client, check_server
from tests.support.front import FRONTS

SLOW_UTF8 = {"6.4.1", "6.4.2", "6.4.3", "6.4.4"}
"""Invalid UTF-8 is refused when the message is complete, not at its first wrong byte, which the suite would prefer."""
UNSPECIFIED = {"7.1.6", "7.13.1", "7.13.2"}


def check(outcomes: list[Outcome], *, binary_refused: int) -> None:
    assert len(outcomes) == 247
    assert [one for one in outcomes if not one.passed and not one.refused_binary] == []
    assert sum(not one.passed for one in outcomes) == binary_refused
    assert {one.case for one in outcomes if one.behavior == "NON-STRICT"} <= SLOW_UTF8
    assert {one.case for one in outcomes if one.behavior == "INFORMATIONAL"} == UNSPECIFIED


@pytest.mark.parametrize("front", FRONTS)
def test_the_callers_end_conforms(front: str) -> None:
    run = uvloop.run if front.endswith("uvloop") else asyncio.run
    check(run(check_server(front, PROTOCOL)), binary_refused=0)


@pytest.mark.representative
def test_the_upstreams_end_conforms_and_refuses_binary_messages_with_their_close_code() -> None:
    check(asyncio.run(check_client(PROTOCOL)), binary_refused=8)
