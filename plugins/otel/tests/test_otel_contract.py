"""The contract of wrappers: traces change no response, even without a collector."""

from __future__ import annotations

from typing import ClassVar

import tornado_gate_otel
from tornado_gate.testing import WrapperContract


class TestOtel(WrapperContract):
    plugin = tornado_gate_otel.OpenTelemetry
    settings: ClassVar = {"endpoint": "http://127.0.0.1:9/v1/traces"}
    bad_settings: ClassVar = {"sample": 2}
