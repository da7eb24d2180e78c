"""The contract of providers for acme: pytest and `tornado-gate plugins check acme` use it.

Add a class for each request that your vendor's API is for, with the response that you have recorded.
"""

from typing import Any, ClassVar

import tornado_gate_acme
from tornado_gate.testing import ProviderContract, chat
from tornado_gate.types import Finish, PartDelta, PartEnd, PartStart, ResponseStart, Usage, UsageReport


class TestAcme(ProviderContract):
    plugin: ClassVar[Any] = tornado_gate_acme
    request = chat("Hello", max_tokens=9)
    outgoing: ClassVar[Any] = {
        "model": "upstream-model",
        "limit": 9,
        "turns": [{"who": "user", "says": "Hello"}],
    }
    chunks = (
        b'data: {"word": "Good "}\n\ndata: {"word": "morning"}\n\n',
        b'data: {"why": "done", "in": 1, "out": 2}\n\n',
    )
    events = (
        ResponseStart(model="upstream-model"),
        PartStart(index=0, kind="text"),
        PartDelta(index=0, data="Good "),
        PartDelta(index=0, data="morning"),
        PartEnd(index=0),
        UsageReport(usage=Usage(input_tokens=1, output_tokens=2)),
        Finish(reason="stop", raw="done"),
    )
