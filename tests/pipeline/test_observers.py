"""What wrappers learn and say of a request: its end, headers of its response, and that an answer came from a cache."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tornado.ioloop import IOLoop

from tests.server.test_costs import read_row
from tests.support.gates import FakeProvider, make_config, make_gate, make_services
from tests.support.served import CHAT, Ask
from tornado_gate import errors, provider_impl, types
from tornado_gate.config.model import ServerConfig
from tornado_gate.server.services import Services
from tornado_gate.targets import outcomes
from tornado_gate.testing import call_to


class Watch:
    """Notes the end of each request; `cached` says that its answers came from a cache."""

    def __init__(self) -> None:
        self.ended: list[types.RequestEnd] = []
        self.cached: bool | None = None

    @provider_impl(wrapper=True)
    def call_upstream(self, call: types.Call) -> Generator[None, Any, Any]:
        pending = yield
        call.when_ended(self.ended.append)
        call.when_ended(_fail)
        call.add_response_header("x-watched", "yes")
        if self.cached is not None:
            call.progress.record_cache(is_hit=self.cached)
        return pending


def _fail(ended: types.RequestEnd) -> None:
    raise ValueError("a mistake of a plugin")


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def services(tmp_path: Path, fake: FakeProvider, watch: Watch, io_loop: IOLoop) -> Iterator[Services]:
    config = make_config(tmp_path, server=ServerConfig(data_dir=tmp_path, access_log=False))
    config = types.replace(config, plugins={**config.plugins, "watch": True})
    services = make_services(tmp_path, config, fake=fake, watch=watch)
    io_loop.run_sync(services.start)
    yield services
    io_loop.run_sync(services.close)


@pytest.mark.gen_test
async def test_a_wrapper_is_told_once_how_a_request_ended(ask: Ask, watch: Watch, fake: FakeProvider) -> None:
    whole = await ask("/plain", CHAT)
    await ask("/plain", {**CHAT, "stream": True})
    fake.raises = errors.UpstreamRefused("No.", status=422)
    refused = await ask("/plain", CHAT)
    assert [(ended.status, ended.outcome, ended.error_code) for ended in watch.ended] == [
        (200, "complete", ""),
        (200, "complete", ""),
        (422, "refused", "upstream_refused"),
    ]
    assert whole.headers["x-watched"] == "yes"
    assert "x-watched" not in refused.headers
    assert watch.ended[0].call.target.provider == "fake"
    assert watch.ended[0].call.meter.usage == types.Usage(input_tokens=1, output_tokens=2)
    assert watch.ended[0].seconds > 0


@pytest.mark.gen_test
async def test_a_cached_answer_uses_nothing(ask: Ask, watch: Watch, services: Services) -> None:
    for cached, expected in ((True, (True, None, 0)), (False, (False, 1, None))):
        watch.cached = cached
        assert (await ask("/plain", CHAT)).code == 200
        row = await read_row(services.gate)
        assert (row.cached, row.input_tokens, row.cost) == expected
    counted = b'tornado_gate_tokens_total{direction="input",model="m",provider="fake"} 1.0'
    assert counted in services.gate.metrics.render()[0]


def test_a_cached_answer_says_nothing_of_its_target(tmp_path: Path, fake: FakeProvider) -> None:
    gate = make_gate(tmp_path, fake=fake)
    call = call_to()
    circuit = gate.health.circuits.find_or_create(call.target, call.caller.account)
    assert circuit is not None
    rules = gate.snapshot.config.circuits
    for _ in range(rules.failures - 1):
        outcomes.note_failure(gate.health, call, errors.UpstreamUnreachable("away"))
    call.progress.record_cache(is_hit=True)
    outcomes.note_start(gate.health, call)
    outcomes.note_success(gate.health, call)
    assert circuit.blocked is None
    outcomes.note_failure(gate.health, call, errors.UpstreamUnreachable("away"))
    assert circuit.blocked is not None, "the cached answer has not ended the series of failures"
