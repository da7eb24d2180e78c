"""The contracts of wrappers, guards and providers: they pass for good plugins, and name what a faulty one does."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest

from tests.support.guides import find_example
from tornado_gate import guard_impl, provider_impl, types
from tornado_gate.config.model import PluginOptions
from tornado_gate.testing import (
    ErrorCase,
    GuardCase,
    GuardContract,
    ProviderContract,
    WrapperContract,
    chat,
    wrapper_checks,
)
from tornado_gate.testing.differences import check_equal
from tornado_gate.testing.guard_formats import check_formats
from tornado_gate.testing.wrapper_site import add_object

GUARDS = Path(__file__).parents[2] / "docs" / "how-to" / "guards.md"
NO_OPTIONS = PluginOptions()


@pytest.fixture
def discreet() -> Iterator[dict[str, Any]]:
    """The names of the example of a test in the guide; its guard is the one of docs/how-to/guards.md."""
    blocks = re.findall(r"```python\n(.*?)```", GUARDS.read_text(encoding="utf-8"), re.S)
    (source,) = [block for block in blocks if block.startswith("# tornado_gate_discreet.py")]
    module = ModuleType("tornado_gate_discreet")
    exec(compile(source, module.__name__, "exec"), vars(module))
    sys.modules[module.__name__] = module
    names: dict[str, Any] = {"__name__": "test_discreet"}
    exec(compile(find_example("# test_discreet.py"), "test_discreet", "exec"), names)
    yield names
    del sys.modules[module.__name__]


@pytest.mark.qa
def test_the_guard_of_the_guide_fulfils_its_contract(discreet: dict[str, Any]) -> None:
    contract = discreet["TestDiscreet"]
    tests = {name for name in dir(contract) if name.startswith("test_")}
    of_wrappers = {name for name in dir(WrapperContract) if name.startswith("test_")}
    assert len(tests) == 8
    for name in tests - of_wrappers:
        getattr(contract(), name)()


class Collects:
    """A wrapper that reads a whole response before it passes on the first event."""

    @provider_impl(wrapper=True)
    def translate_response(self) -> Iterator[None]:
        events: Any = yield
        return self.collect(events)  # type: ignore[return-value]

    async def collect(self, events: AsyncIterator[Any]) -> AsyncIterator[Any]:
        for event in [event async for event in events]:
            yield event


def test_a_wrapper_that_collects_answers_floods_the_gateway() -> None:
    (problem,) = asyncio.run(wrapper_checks.find_floods(add_object(Collects), NO_OPTIONS))
    assert problem.startswith("common lane: the upstream sent ")


class Late:
    """A guard with too short a lookahead: an address that two windows have together passes."""

    @guard_impl
    def guard_options(self) -> types.GuardOptions:
        return types.GuardOptions(lookahead=1)

    @guard_impl
    def review_response(self, texts: list[types.GuardedText]) -> types.Decision:
        spans = tuple(types.find_spans(texts, re.compile("ann@example.com"), lambda _: "-"))
        return types.Replace(spans) if spans else None


def test_a_guard_that_misses_split_texts_is_found_in_every_wire_format() -> None:
    case = GuardCase(text="to ann@example.com now", becomes="to - now", hidden=["ann@example.com"])
    found = asyncio.run(check_formats(Late, NO_OPTIONS, (), [case]))
    for name in ("format-anthropic", "format-openai", "format-gemini"):
        for lane in ("common", "verbatim"):
            assert any(name in problem and f"{lane} lane" in problem for problem in found), (name, lane, found)


def test_settings_without_a_check_are_found() -> None:
    assert "no_such" not in wrapper_checks.find_accepted_settings(add_object(Collects), {"no_such": 1})


class Vendor:
    @provider_impl
    def translate_request(self, call: types.Call) -> types.UpstreamRequest:
        return types.UpstreamRequest(url=call.target.base_url, headers={"x-key": call.target.api_key}, json={})

    @provider_impl
    async def translate_response(self, incoming: types.UpstreamResponse) -> AsyncIterator[types.StreamEvent]:
        await incoming.read()
        yield types.ResponseStart(model="m")


class VendorContract(ProviderContract):
    plugin = Vendor
    request = chat()
    chunks: ClassVar[list[bytes]] = [b"{}"]
    events: ClassVar[list[types.StreamEvent]] = [types.ResponseStart(model="m")]


def test_the_errors_of_a_vendor_are_compared_with_what_callers_get() -> None:
    contract = VendorContract()
    contract.test_errors_of_the_upstream_become_the_right_errors()
    for case, said in (
        (ErrorCase(status=418, expected_status=502), "status 418, not 502"),
        (ErrorCase(status=200, expected_status=400), "did not become an error"),
        (ErrorCase(status=400, expected_status=400, message="why"), "without 'why'"),
        (ErrorCase(status=429, expected_status=429, retry_after="1"), "Retry-After None, not '1'"),
    ):
        VendorContract.errors = (case,)
        with pytest.raises(AssertionError, match=re.escape(said)):
            contract.test_errors_of_the_upstream_become_the_right_errors()
    VendorContract.errors = ProviderContract.errors


def test_differences_are_shown_by_pytest() -> None:
    with pytest.raises(AssertionError) as caught:
        check_equal([1, 2], [1, 3], "Two lists.")
    assert "At index 1 diff: 2 != 3" in str(caught.value)


def test_a_wrapper_contract_needs_no_more_than_a_plugin() -> None:
    class Quiet:
        @provider_impl(wrapper=True)
        def call_upstream(self) -> Iterator[None]:
            return (yield)

    class QuietContract(WrapperContract):
        plugin = Quiet

    for name in (name for name in dir(QuietContract) if name.startswith("test_")):
        getattr(QuietContract(), name)()
    assert not GuardContract.requests
