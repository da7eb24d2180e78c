"""The promises of every wrapper for requests that it does not change, for `WrapperContract` and for the conformance
kit.

Each function returns the broken promises as texts, or [].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tornado_gate.config.model import PluginOptions
from tornado_gate.errors import ConfigError
from tornado_gate.plugins.host import PluginHost
from tornado_gate.plugins.wrappers import Scope
from tornado_gate.testing.differences import describe_difference
from tornado_gate.testing.wrapper_site import (
    LANES,
    MOST_BYTES,
    WrapperSite,
    describe_answer,
    list_ways,
    open_site,
)

Add = Callable[[PluginHost], str]


async def find_changes(add: Add, options: PluginOptions) -> list[str]:
    """Return the responses of all kinds that differ with and without the wrapper, and exceptions of the wrapper."""
    usual = await _collect_answers(None, PluginOptions())
    changes = []
    wrapped = await _collect_answers(add, options)
    for way, (answer, failures) in wrapped.items():
        if failures:
            changes.append(f"{way}: the wrapper failed: {failures}. It must raise nothing but a GateError.")
        if answer != usual[way][0]:
            changes.append(
                f"{way}: another answer than without the wrapper:\n{describe_difference(answer, usual[way][0])}"
            )
    return changes


async def _collect_answers(add: Add | None, options: PluginOptions) -> dict[str, tuple[dict[str, Any], str]]:
    """Return the responses by lane and way, each with the failures of plugins."""
    answers = {}
    async with open_site(add, options) as site:
        for lane in LANES:
            for way in list_ways():
                site.stage.services.gate.host.failures.clear()
                answer = await site.send(lane, way)
                failures = "; ".join(f"{name}: {text}" for name, text in site.find_failures().items())
                answers[f"{lane} lane, {way.name}"] = describe_answer(answer), failures
    return answers


async def find_leaks(add: Add, options: PluginOptions) -> list[str]:
    """Return the tasks and connections that remain after callers have left, by lane."""
    leaks = []
    async with open_site(add, options) as site:
        for lane in LANES:
            for streamed in (False, True):
                what = await site.leave(lane, streamed=streamed)
                if what:
                    way = "a stream" if streamed else "a whole answer"
                    leaks.append(
                        f"{lane} lane, the caller left {way}: {what}. Let CancelledError pass, and close what you open."
                    )
    return leaks


async def find_floods(add: Add, options: PluginOptions) -> list[str]:
    """Return the lanes in which a caller who does not read does not stop the upstream."""
    floods = []
    async with open_site(add, options) as site:
        for lane in LANES:
            sent = await site.stall(lane)
            if sent > MOST_BYTES:
                floods.append(
                    f"{lane} lane: the upstream sent {sent:,} bytes to a caller who reads nothing. Pass items on while you read "
                    "them (tornado_gate.streams.stages.add_step), and collect no answer."
                )
    return floods


def find_accepted_settings(add: Add, settings: Any) -> str:
    """Return the problem if the plugin accepts settings that it must refuse, or refuses them without a ConfigError;
    else "".
    """
    host = PluginHost()
    name = add(host)
    try:
        plugin = host.configure(name, PluginOptions(settings=settings), Scope())
    except ConfigError as error:
        return (
            "" if all(path and text for path, text in error.faults) else "the ConfigError names no key and no problem"
        )
    return (
        f"the settings {settings} were accepted"
        if not plugin.error
        else f"the settings {settings} failed: {plugin.error}"
    )


async def with_site(add: Add, options: PluginOptions, use: Callable[[WrapperSite], Any]) -> Any:
    """Return the result of the coroutine function `use` with a site."""
    async with open_site(add, options) as site:
        return await use(site)
