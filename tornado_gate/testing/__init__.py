"""For authors of plugins: contracts to inherit, and an upstream with a scripted answer.

A provider's test names a request, the upstream body it must become, recorded chunks and the events they must become::

    class TestAcme(ProviderContract):
        plugin = tornado_gate_acme
        request = chat("Hello")
        outgoing = {"model": "acme-1", "turns": [{"who": "user", "says": "Hello"}]}
        chunks = [b'data: {"word": "Hi"}\\n\\n', …]
        events = [ResponseStart(model="acme-1"), …]

A provider without an HTTP upstream inherits `InProcessProviderContract` or `RealtimeProviderContract`, a format
`FormatContract`. The module imports nothing of pytest, which finds the inherited tests by their names.
"""

from tornado_gate.testing.calls import (
    KEY,
    call_to,
    chat,
    chunks_of,
    collect_chunks,
    iterate,
    load_format,
    load_provider,
    target_of,
    wire_request,
)
from tornado_gate.testing.fake_upstream import FakeUpstream
from tornado_gate.testing.files import FakeFetcher, FakeUpload
from tornado_gate.testing.format_contract import ERROR, FormatContract
from tornado_gate.testing.provider_contracts import (
    BaseProviderContract,
    InProcessProviderContract,
    ProviderContract,
    RealtimeProviderContract,
    check_order,
)

__all__ = [
    "ERROR",
    "KEY",
    "BaseProviderContract",
    "FakeFetcher",
    "FakeUpload",
    "FakeUpstream",
    "FormatContract",
    "InProcessProviderContract",
    "ProviderContract",
    "RealtimeProviderContract",
    "call_to",
    "chat",
    "check_order",
    "chunks_of",
    "collect_chunks",
    "iterate",
    "load_format",
    "load_provider",
    "target_of",
    "wire_request",
]
