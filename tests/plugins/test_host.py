"""A plugin is found by its hooks; whatever is wrong with it is named and goes no further."""

from __future__ import annotations

import asyncio
import sys
import types as python_types
from collections.abc import AsyncIterator, Iterator
from importlib import metadata
from typing import Any

import pytest

from tornado_gate import format_impl, guard_impl, provider_impl, types
from tornado_gate.config.model import PluginOptions
from tornado_gate.errors import ConfigError, InvalidField, PluginError, PluginUnavailable
from tornado_gate.hookspecs import ProviderEntry
from tornado_gate.plugins.distribution_files import ENTRY_POINT_GROUP
from tornado_gate.plugins.guard_lanes import GuardFailed, GuardLane
from tornado_gate.plugins.host import Plugin, PluginHost
from tornado_gate.plugins.lanes import FormatLane, ProviderLane
from tornado_gate.plugins.wrappers import Scope
from tornado_gate.streams.pausable import complete
from tornado_gate.testing import call_to, chat


class Good:
    @provider_impl
    def translate_request(self, call: types.Call, request: types.Request) -> types.UpstreamRequest:
        return types.UpstreamRequest(url=call.target.base_url)

    @provider_impl
    async def translate_response(self) -> AsyncIterator[types.StreamEvent]:
        yield types.ResponseStart(model="m")


class Wrapper:
    @provider_impl(wrapper=True)
    def translate_request(self) -> Iterator[None]:
        outgoing = yield
        return types.UpstreamRequest(url=outgoing.url + "/wrapped")  # type: ignore[attr-defined, return-value]


def lane(implementation: Any, *wrappers: Any) -> ProviderLane:
    host = PluginHost()
    plugin = host.add("acme", implementation)
    return ProviderLane(host, plugin, [host.add(f"wrapper{n}", wrapper) for n, wrapper in enumerate(wrappers)])


def outgoing(of: ProviderLane) -> types.UpstreamRequest:
    return asyncio.run(of.translate_request(call_to(), chat()))


def importable(host: PluginHost, source: str, name: str = "acme") -> Plugin:
    """A plugin whose module runs `source` when it is imported."""
    module = f"acme_{abs(hash(source))}"

    class Finder:
        def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
            if fullname != module:
                return None
            import importlib.machinery

            return importlib.machinery.ModuleSpec(fullname, self)  # type: ignore[arg-type]

        def create_module(self, spec: Any) -> None:
            return None

        def exec_module(self, loaded: python_types.ModuleType) -> None:
            exec(compile(source, module, "exec"), loaded.__dict__)

    finder = Finder()
    sys.meta_path.append(finder)  # type: ignore[arg-type]
    try:
        entry_point = metadata.EntryPoint(name, module, ENTRY_POINT_GROUP)
        host.plugins[name] = Plugin(name=name, module=module, distribution="", version="", entry_point=entry_point)
        return host.load(name)
    finally:
        sys.meta_path.remove(finder)  # type: ignore[arg-type]


def test_the_side_of_a_plugin_is_told_by_its_hooks() -> None:
    host = PluginHost()
    assert host.add("acme", Good).kind == "provider"
    assert host.add("wrap", Wrapper).kind == "wrapper"


def test_installed_plugins_are_found_by_their_entry_points() -> None:
    assert {"local", "openai", "format-openai"} <= set(PluginHost().plugins)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("raise RuntimeError('broken')", "RuntimeError: broken"),
        ("import a_module_that_is_not_there", "ModuleNotFoundError"),
        ("this is no python", "SyntaxError"),
        ("x = 1", "implements no hook"),
        (
            "from tornado_gate import provider_impl\n@provider_impl\ndef translate_request(call): ...",
            "must implement translate_response",
        ),
        (
            "from tornado_gate import provider_impl\n@provider_impl\ndef translate_request(nothing_like_it): ...",
            "nothing_like_it",
        ),
        ("from tornado_gate import provider_impl\n@provider_impl\ndef translate_reqest(call): ...", "translate_reqest"),
        (
            "from tornado_gate import provider_impl\n@provider_impl\ndef translate_request(call): ...\n"
            "@provider_impl(wrapper=True)\ndef translate_response(call): yield",
            "wrapper hooks only",
        ),
    ],
)
def test_a_plugin_that_cannot_be_loaded_is_named_with_its_error(source: str, words: str) -> None:
    host = PluginHost()
    plugin = importable(host, source)
    assert words in plugin.error
    assert "acme" in host.failures


def test_an_import_that_hangs_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tornado_gate.plugins.host.IMPORT_SECONDS", 0.2)
    host = PluginHost()
    host.watchdog.start()
    try:
        plugin = importable(host, "import time\ntime.sleep(1000)")
    finally:
        host.watchdog.stop()
    assert "its import took longer" in plugin.error


def test_two_distributions_with_one_name_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Distribution:
        version = "1"

        def __init__(self, name: str) -> None:
            self.name = name

    class EntryPoint:
        name = "acme"
        module = "acme"

        def __init__(self, distribution: str) -> None:
            self.dist = Distribution(distribution)

    monkeypatch.setattr(metadata, "entry_points", lambda group: [EntryPoint("one"), EntryPoint("two")])
    assert PluginHost().load("acme").error == (
        "one and two both install a plugin of this name; uninstall one of them, or choose one in the configuration: "
        "plugins: {acme: {distribution: one}}"
    )


def test_a_lane_calls_the_plugin_and_every_wrapper_around_it() -> None:
    assert outgoing(lane(Good)).url == "http://upstream.test/v1"
    assert outgoing(lane(Good, Wrapper)).url == "http://upstream.test/v1/wrapped"


def test_a_lane_without_configure_serves_chat_and_takes_no_settings() -> None:
    entry = ProviderEntry(name="acme", settings={"colour": "red"})
    assert lane(Good).configure(ProviderEntry(name="acme")).operations == {"chat"}
    with pytest.raises(ConfigError, match="colour"):
        lane(Good).configure(entry)


def failing(error: Exception) -> type:
    class Failing(Good):
        @provider_impl
        def translate_request(self) -> types.UpstreamRequest:
            raise error

    return Failing


def test_what_a_hook_raises_is_blamed_on_the_plugin_and_not_shown() -> None:
    broken = lane(failing(KeyError("secret")))
    with pytest.raises(PluginError) as caught:
        outgoing(broken)
    assert (caught.value.plugin, caught.value.status) == ("acme", 503)
    assert "secret" not in caught.value.message
    assert "KeyError" in broken.host.failures["acme"][1]


def test_a_gate_error_is_the_callers_answer_and_no_failure() -> None:
    refusing = lane(failing(InvalidField("n", "'n' must be 1 here.")))
    with pytest.raises(InvalidField):
        outgoing(refusing)
    assert not refusing.host.failures


@pytest.mark.parametrize("result", [None, 1, "text", {}])
def test_a_hook_that_returns_the_wrong_thing_broke_its_contract(result: Any) -> None:
    class Wrong(Good):
        @provider_impl
        def translate_request(self) -> Any:
            return result

    with pytest.raises(PluginError):
        outgoing(lane(Wrong))


def test_an_upstream_call_that_gives_the_wrong_thing_broke_its_contract() -> None:
    class Wrong(Good):
        @provider_impl
        async def call_upstream(self) -> Any:
            return b"bytes"

    class NotAsync(Good):
        @provider_impl
        def call_upstream(self) -> Any:
            return b"bytes"

    for implementation in (Wrong, NotAsync):
        with pytest.raises(PluginError):
            asyncio.run(lane(implementation).call_upstream(call_to(), types.UpstreamRequest()))


def test_a_translate_response_that_is_a_coroutine_broke_its_contract() -> None:
    class Wrong(Good):
        @provider_impl
        async def translate_response(self) -> Any:  # type: ignore[override]
            return []

    incoming = types.UpstreamResponse(chunks=stream_of_nothing())
    with pytest.raises(PluginError):
        lane(Wrong).translate_response(call_to(), chat(), incoming)


async def stream_of_nothing() -> AsyncIterator[bytes]:
    for chunk in ():
        yield chunk


def test_a_format_whose_routes_are_wrong_is_named() -> None:
    class Wrong:
        @format_impl
        def routes(self) -> Any:
            return "POST /"

        @format_impl
        def translate_request(self) -> None: ...

        @format_impl
        def translate_response(self) -> None: ...

        @format_impl
        def translate_error(self) -> None: ...

    host = PluginHost()
    with pytest.raises(PluginError):
        FormatLane(host, host.add("acme", Wrong), [])
    assert "routes" in host.failures["acme"][1]


class Guard:
    """Replaces nothing; blocks the word "never"."""

    options: Any = types.GuardOptions(lookahead=10)

    @guard_impl
    def guard_options(self) -> types.GuardOptions:
        return self.options

    @guard_impl
    def review_request(self, texts: list[types.GuardedText]) -> types.Decision:
        return types.Block(message="no") if any("never" in text.text for text in texts) else None


class GuardAndWrapper(Guard, Wrapper):
    pass


def test_a_guard_is_a_wrapper_and_may_have_wrapper_hooks() -> None:
    host = PluginHost()
    for implementation, sides in ((Guard, {"guard"}), (GuardAndWrapper, {"guard", "provider"})):
        plugin = host.add("guard", implementation)
        assert (plugin.kind, set(plugin.hooks), plugin.is_guard) == ("wrapper", sides, True)
        assert host.configure("guard", PluginOptions(), Scope()).guard_options.lookahead == 10


def test_what_is_no_guard_is_refused() -> None:
    class GuardAndProvider(Guard, Good):
        pass

    class Silent:
        @guard_impl
        def guard_options(self) -> types.GuardOptions:
            return types.GuardOptions()

    class Wrapping:
        @guard_impl(wrapper=True)
        def review_request(self) -> Iterator[None]:
            yield

    for implementation, reason in (
        (GuardAndProvider, "wrapper hooks only"),
        (Silent, "must implement review_request or review_response"),
        (Wrapping, "cannot be wrappers"),
    ):
        with pytest.raises(TypeError, match=reason):
            PluginHost().add("guard", implementation)


def test_a_guard_with_wrong_options_cannot_work_and_closes_its_scope_if_it_is_required() -> None:
    class Wrong(Guard):
        options = 256

    host = PluginHost()
    host.add("guard", Wrong)
    plugin = host.configure("guard", PluginOptions(), Scope())
    assert "must return GuardOptions" in plugin.error
    assert not plugin.closed
    assert host.configure("guard", PluginOptions(required=True), Scope()).closed


def test_a_time_limit_of_reviews_is_for_guards() -> None:
    host = PluginHost()
    host.add("wrap", Wrapper)
    with pytest.raises(ConfigError, match="is for guards"):
        host.configure("wrap", PluginOptions(review_timeout=1.0), Scope())


def review(implementation: Any, word: str, **options: Any) -> types.Decision:
    host = PluginHost()
    given = PluginOptions(**options)
    host.add("guard", implementation)
    found = GuardLane(host, host.configure("guard", given, Scope(given)))
    texts = [types.GuardedText(kind="user", path="input", text=word)]
    return asyncio.run(complete(found.review("request", call_to(), texts)))


def test_a_review_returns_the_decision_or_a_failure_that_names_the_guard() -> None:
    class Slow(Guard):
        @guard_impl
        async def review_request(self) -> types.Decision:
            await asyncio.Event().wait()
            return None

    class Broken(Guard):
        @guard_impl
        def review_request(self) -> types.Decision:
            raise KeyError("boom")

    class Careless(Guard):
        @guard_impl
        def review_request(self) -> bool:
            return True

    assert review(Guard, "hello") is None
    assert review(Guard, "never") == types.Block(message="no")
    for implementation, detail in (
        (Slow, "took longer than review_timeout"),
        (Broken, "KeyError"),
        (Careless, "returned bool"),
    ):
        for required, kind in ((True, PluginUnavailable), (False, PluginError)):
            with pytest.raises(GuardFailed, match=detail) as failed:
                review(implementation, "hello", required=required, review_timeout=0.01)
            assert type(failed.value.error) is kind
            assert failed.value.error.plugin == "guard"
