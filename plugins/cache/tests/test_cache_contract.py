"""The cache passes the contract of wrappers: it changes no answer, and leaves nothing when a caller leaves."""

from __future__ import annotations

from typing import ClassVar

import tornado_gate_cache
from tornado_gate.testing import WrapperCase, WrapperContract


class TestCache(WrapperContract):
    plugin = tornado_gate_cache.Cache
    bad_settings: ClassVar = {"scope": "everybody"}
    # Equal requests of the contract must get different answers, so they are not deterministic.
    cases: ClassVar = (
        WrapperCase(ask="Hello again", words=("One answer",), answer="One answer", headers={"x-gate-cache": "bypass"}),
    )
