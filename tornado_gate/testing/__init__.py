"""Tools for authors of plugins: contracts to inherit, upstreams with scripted responses, and a gateway in the test's process.

A provider's test names a request, the upstream body it must become, recorded chunks and the events they must become::

    class TestAcme(ProviderContract):
        plugin = tornado_gate_acme
        request = chat("Hello")
        outgoing = {"model": "acme-1", "turns": [{"role": "user", "text": "Hello"}]}
        chunks = [b'data: {"word": "Hi"}\\n\\n', …]
        events = [ResponseStart(model="acme-1"), …]

A provider with several operations has `cases`. A provider without an HTTP upstream inherits `InProcessProviderContract` or
`RealtimeProviderContract`, a format `FormatContract`, a wrapper `WrapperContract`. `tornado_gate.testing.conformance` is the kit
of ``tornado-gate plugins check``. `check_tape` replays a recorded request. docs/plugins/plugin-testing.md has examples.

The package does not need pytest, which finds the inherited tests by their names. If pytest runs, it explains the asserts of the
contracts like the asserts of test modules.
"""

import sys

if "pytest" in sys.modules:  # before the contracts are imported
    sys.modules["pytest"].register_assert_rewrite(
        *(
            f"{__name__}.{module}"
            for module in ("differences", "provider_contracts", "format_contract", "wrapper_contract")
        ),
        *(f"{__name__}.{module}" for module in ("outgoing", "upstream_errors")),
    )

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
from tornado_gate.testing.cases import COMMON_ERRORS, Case, ErrorCase, GuardCase
from tornado_gate.testing.declaration import Conformance
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
from tornado_gate.testing.scripted_upstream import (
    Endless,
    Fault,
    ReceivedRequest,
    ScriptedUpstream,
    UpstreamAnswer,
    json_answer,
    sse_answer,
)
from tornado_gate.testing.tape_replay import Replay, check_tape, replay_tape
from tornado_gate.testing.wrapper_contract import GuardContract, WrapperCase, WrapperContract

__all__ = [
    "COMMON_ERRORS",
    "ERROR",
    "KEY",
    "BaseProviderContract",
    "Case",
    "Conformance",
    "Endless",
    "ErrorCase",
    "FakeFetcher",
    "FakeUpload",
    "FakeUpstream",
    "Fault",
    "FormatContract",
    "GuardCase",
    "GuardContract",
    "InProcessProviderContract",
    "ProviderContract",
    "RealtimeProviderContract",
    "ReceivedRequest",
    "Replay",
    "ScriptedUpstream",
    "UpstreamAnswer",
    "WrapperCase",
    "WrapperContract",
    "call_to",
    "chat",
    "check_order",
    "check_tape",
    "chunks_of",
    "collect_chunks",
    "iterate",
    "json_answer",
    "load_format",
    "load_provider",
    "replay_tape",
    "sse_answer",
    "target_of",
    "wire_request",
]
