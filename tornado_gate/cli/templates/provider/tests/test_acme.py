"""The contract of providers for acme, and what it does not cover."""

import asyncio

import tornado_gate_acme
from tornado_gate.testing import call_to, chat, load_provider
from tornado_gate_acme_conformance import TestAcme

__all__ = ["TestAcme"]


def test_what_the_vendor_cannot_do_is_reported() -> None:
    lane = load_provider(tornado_gate_acme)
    call = call_to(lane)
    asyncio.run(lane.translate_request(call, chat("Hello", seed=1, extra={"colour": "blue"})))
    assert call.losses == ["seed", "colour"]
