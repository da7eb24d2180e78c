"""The contracts of providers without an HTTP upstream."""

from __future__ import annotations

from typing import Any, ClassVar

import tornado_gate_local as plugin
from tornado_gate import ProviderEntry
from tornado_gate.testing import InProcessProviderContract, RealtimeProviderContract, chat
from tornado_gate.types import (
    CountTokensRequest,
    Finish,
    PartDelta,
    PartEnd,
    PartStart,
    RealtimeRequest,
    ResponseStart,
    StreamEvent,
    TokenCount,
    Usage,
    UsageReport,
    replace,
)

ENTRY = ProviderEntry(name="test")


class TestChat(InProcessProviderContract):
    plugin = plugin
    entry = ENTRY
    request = chat("Hello", max_tokens=3)
    events = (
        ResponseStart(model="upstream-model"),
        PartStart(index=0, kind="text"),
        PartDelta(index=0, data="Hi there"),
        PartEnd(index=0),
        UsageReport(usage=Usage(input_tokens=5, output_tokens=3, reasoning_tokens=0)),
        Finish(reason="length"),
    )

    def normalize(self, event: StreamEvent) -> StreamEvent:
        return replace(event, id=None, created=None) if isinstance(event, ResponseStart) else event


class TestTokenCount(InProcessProviderContract):
    plugin = plugin
    entry = ENTRY
    request = CountTokensRequest(model="test-model", chat=chat("Hello"))
    call_fields: ClassVar[dict[str, Any]] = {"operation": "count_tokens"}
    events = (TokenCount(input_tokens=5),)


class TestRealtime(RealtimeProviderContract):
    plugin = plugin
    entry = ENTRY
    request = RealtimeRequest(model="test-model")
    call_fields: ClassVar[dict[str, Any]] = {"operation": "realtime"}
