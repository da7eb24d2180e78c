"""The contract of providers for acme: add the requests that your vendor's API is for, with recorded responses."""

import asyncio
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
    chunks = (b'data: {"word": "Hi"}\n\n', b'data: {"why": "done", "in": 1, "out": 1}\n\n')
    events = (
        ResponseStart(model="upstream-model"),
        PartStart(index=0, kind="text"),
        PartDelta(index=0, data="Hi"),
        PartEnd(index=0),
        UsageReport(usage=Usage(input_tokens=1, output_tokens=1)),
        Finish(reason="stop", raw="done"),
    )

    def test_what_the_vendor_cannot_do_is_reported(self) -> None:
        call = self.call()
        asyncio.run(self.lane().translate_request(call, chat("Hello", seed=1, extra={"colour": "blue"})))
        assert call.losses == ["seed", "colour"]
