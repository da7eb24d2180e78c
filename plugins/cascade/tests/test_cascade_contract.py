"""The contract of providers of realtime sessions."""

from __future__ import annotations

from typing import Any, ClassVar

from cascade_models import FakeInner, said

import tornado_gate_cascade as plugin
from tornado_gate import ProviderEntry
from tornado_gate.testing import RealtimeProviderContract, chat
from tornado_gate.types import RealtimeRequest


class TestContract(RealtimeProviderContract):
    plugin = plugin
    entry = ProviderEntry(name="test", settings={"chat": "a", "transcription": "b", "speech": "c"})
    request = RealtimeRequest(model="test-model")
    call_fields: ClassVar[dict[str, Any]] = {"operation": "realtime", "inner": FakeInner(said("Hi"))}
    unserved = chat()
