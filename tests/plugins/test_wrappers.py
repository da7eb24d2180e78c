"""The scope of a wrapper: which calls it covers, by every name of a model, by operation and by key."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.gates import PlainFormat, model
from tests.support.guides import find_example
from tornado_gate import PluginEntry, format_impl, plugin_impl, provider_impl, types
from tornado_gate.config.model import ModelEntry, ModelTarget, PluginOptions
from tornado_gate.errors import ConfigError, InvalidField, PluginUnavailable
from tornado_gate.pipeline.plugin_setup import ModelNames
from tornado_gate.plugins.host import PluginHost
from tornado_gate.plugins.lanes import FormatLane, ProviderLane
from tornado_gate.plugins.wrappers import Scope
from tornado_gate.testing import call_to, chat
from tornado_gate.types import NO_TARGET, Caller

MODELS = {
    "gpt-4o": model("gpt-4o", "up"),
    "alias": ModelEntry(name="alias", targets=(ModelTarget(provider="up", model="gpt-4o"),)),
    "safe": model("safe", "up", fallback=("gpt-4o",)),
    "indirect": model("indirect", "up", fallback=("alias",)),
    "up/*": ModelEntry(name="up/*", targets=(ModelTarget(provider="up"),)),
    "other": model("other", "up"),
}
ANN = Caller(id="conf:ann", account="ann", name="ann")


def covers(call: types.Call | None, **options: Any) -> bool:
    return Scope(PluginOptions(**options), ModelNames(MODELS).list).covers(call)


def call_for(name: str, caller: Caller = ANN, operation: str = "chat", **rest: Any) -> types.Call:
    return types.Call(id="r", operation=operation, format="plain", model=name, caller=caller, **rest)


@pytest.mark.parametrize("name", ["gpt-4o", "alias", "safe", "indirect", "up/gpt-4o", "gpt-5-not-in-conf"])
def test_a_model_is_covered_by_every_name_that_leads_to_it(name: str) -> None:
    assert covers(call_for(name), models=("gpt-*",))


@pytest.mark.parametrize("name", ["other", "up/other", ""])
def test_other_models_are_not_covered(name: str) -> None:
    assert not covers(call_for(name), models=("gpt-*",))


def test_the_model_of_a_target_counts_for_a_call_that_names_none() -> None:
    target = types.Target(provider="up", plugin="up", model="alias", upstream_model="gpt-4o")
    assert covers(call_for("", target=target), models=("gpt-*",))
    assert not covers(call_for("", target=NO_TARGET), models=("gpt-*",))


@pytest.mark.parametrize(
    ("keys", "caller", "covered"),
    [
        (("ann",), ANN, True),
        (("a*",), ANN, True),
        (("conf:ann",), ANN, True),
        (("bob",), ANN, False),
        (("ann",), Caller(id="key_1", account="x", name="ann"), False),  # its owner has chosen the name
        (("key_1",), Caller(id="key_1", account="x", name="ann"), True),
        (("team_2",), Caller(id="key_1", account="x", name="ann", team="team_2"), True),
        (("research",), Caller(id="conf:x", account="x", name="x", team="research"), True),
        (("conf:*",), Caller(id="key_1", account="x", name="conf:x"), False),
        (("bob",), Caller(id="key_1", account="x"), True),  # a task of an older version knows nothing else
    ],
)
def test_keys_are_matched_by_the_ids_of_keys_and_teams_and_by_names_of_conf_only(
    keys: tuple[str, ...], caller: Caller, covered: bool
) -> None:
    assert covers(call_for("gpt-4o", caller), keys=keys) is covered


def test_all_parts_of_a_scope_must_match_and_a_hook_without_a_call_is_covered() -> None:
    options: dict[str, Any] = {"models": ("gpt-*",), "operations": ("chat",), "keys": ("ann",)}
    assert covers(call_for("gpt-4o"), **options)
    assert not covers(call_for("gpt-4o", operation="speech"), **options)
    assert not covers(call_for("other"), **options)
    assert covers(None, **options)


class Provider:
    @provider_impl
    def translate_request(self, call: types.Call, request: types.Request) -> types.UpstreamRequest:
        return types.UpstreamRequest(url=call.target.base_url)

    @provider_impl
    async def translate_response(self) -> Any:
        yield types.ResponseStart(model="m")


class Adds:
    """Declares neither the call nor all arguments, and uses another name for its function."""

    @provider_impl(wrapper=True, specname="translate_request")
    def add(self, request: types.Request) -> Iterator[None]:
        outgoing: Any = yield
        return types.replace(outgoing, url=outgoing.url + "/" + request.model)  # type: ignore[return-value]


async def wrapped_url(models: tuple[str, ...]) -> str:
    """The URL of a request for the model "wrapped", at a provider with the wrapper `Adds` for these models."""
    host = PluginHost()
    host.add("adds", Adds)
    wrapper = host.configure("adds", PluginOptions(models=models), Scope(PluginOptions(models=models)))
    lane = ProviderLane(host, host.add("acme", Provider), [wrapper])
    call = call_to().replace(model="wrapped")
    outgoing = await lane.translate_request(call, types.replace(chat(), model="wrapped"))
    return outgoing.url.removeprefix("http://upstream.test/v1")


@pytest.mark.parametrize(("models", "url"), [((), "/wrapped"), (("wr*",), "/wrapped"), (("x",), "")])
def test_a_hook_may_have_any_arguments_and_any_name(models: tuple[str, ...], url: str) -> None:
    assert asyncio.run(wrapped_url(models)) == url


class OnProvider:
    @provider_impl(wrapper=True)
    def call_upstream(self) -> Iterator[None]:
        return (yield)


def test_a_required_wrapper_without_hooks_for_sessions_refuses_them() -> None:
    host = PluginHost()
    host.add("guard", OnProvider)
    wrapper = host.configure("guard", PluginOptions(required=True), Scope())
    lane = FormatLane(host, host.add("plain", PlainFormat), [wrapper])
    with pytest.raises(PluginUnavailable, match="'guard'"):
        lane.open_session(call_for("m"), None).send(None)  # type: ignore[arg-type]


def test_a_wrapper_without_provider_hooks_refuses_requests_that_no_format_has_seen() -> None:
    class OnFormat:
        @format_impl(wrapper=True)
        def translate_request(self) -> Iterator[None]:
            return (yield)

    host = PluginHost()
    host.add("guard", OnFormat)
    options = PluginOptions(required=True, models=("gpt-*",))
    lane = ProviderLane(
        host, host.add("acme", Provider), [host.configure("guard", options, Scope(options, ModelNames(MODELS).list))]
    )
    lane.check_unseen_request(call_for("other"))
    with pytest.raises(PluginUnavailable):
        lane.check_unseen_request(call_for("alias"))
    lane.check_unseen_request(call_for("alias"), seen=call_for("gpt-4o"))
    with pytest.raises(PluginUnavailable):
        lane.check_unseen_request(call_for("alias"), seen=call_for(""))


def test_the_example_of_a_guide_takes_its_settings_from_conf() -> None:
    source = find_example("# tornado_gate_mark")
    names: dict[str, Any] = {"__name__": "tornado_gate_mark"}
    exec(compile(source, "tornado_gate_mark", "exec"), names)
    host = PluginHost()
    host.add("mark", names["Mark"])

    def translate_error(**settings: Any) -> bytes:
        mark = host.configure("mark", PluginOptions(settings=settings), Scope())
        lane = FormatLane(host, host.add("plain", PlainFormat), [mark])
        return lane.translate_error(None, InvalidField("secret", "The field 'secret' is wrong."))

    assert b"secret" not in translate_error(word="secret")
    assert b"The field '[gone]' is wrong." in translate_error(word="secret", mark="[gone]")
    assert b"secret" in translate_error(word="other")
    with pytest.raises(ConfigError, match="word: is missing"):
        translate_error()


def test_options_of_wrappers_are_faults_for_other_plugins() -> None:
    host = PluginHost()
    host.add("acme", Provider)
    for options in ({"required": True}, {"models": ("a",)}, {"operations": ("chat",)}, {"keys": ("a",)}):
        with pytest.raises(ConfigError, match="is for wrappers"):
            host.configure("acme", PluginOptions(**options), Scope())  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="belong to its entries under providers"):
        host.configure("acme", PluginOptions(settings={"colour": "red"}), Scope())


def test_each_configuration_has_its_own_settings() -> None:
    """A request that started before a reload keeps the settings of its configuration."""

    class Adds2:
        def __init__(self, word: str = "") -> None:
            self.word = word

        @plugin_impl
        def configure_plugin(self, entry: PluginEntry) -> Adds2:
            return Adds2(entry.settings["word"])

        @provider_impl(wrapper=True)
        def translate_request(self) -> Iterator[None]:
            outgoing: Any = yield
            return types.replace(outgoing, url=outgoing.url + self.word)  # type: ignore[return-value]

    host = PluginHost()
    host.add("adds", Adds2)
    provider = host.add("acme", Provider)
    lanes = [
        ProviderLane(host, provider, [host.configure("adds", PluginOptions(settings={"word": word}), Scope())])
        for word in ("/old", "/new")
    ]
    urls = [asyncio.run(lane.translate_request(call_to(), chat())).url for lane in lanes]
    assert [url[-4:] for url in urls] == ["/old", "/new"]
