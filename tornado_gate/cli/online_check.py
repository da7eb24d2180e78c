"""The part of `check --online`: ask each provider whether its key works and which models it has."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Final

from tornado_gate.config.faults import Fault, KeyPath, KnownNames
from tornado_gate.config.model import Config
from tornado_gate.pipeline.connection_tests import ConnectionTest, check_connection
from tornado_gate.pipeline.snapshot import Snapshot
from tornado_gate.targets.configured_provider import ConfiguredProvider
from tornado_gate.targets.routing import resolve_upstream_model
from tornado_gate.types.model_names import canonicalize_name
from tornado_gate.types.value import State, field
from tornado_gate.types.vendors import MOST_LISTED_MODELS

MOST_AT_A_TIME: Final = 16
_VERSION: Final = re.compile(r"(?:-\d{8}|-\d{4}-\d{2}-\d{2}|-latest|:latest)$")
"""The end of a listed name that a request may leave out."""
_LISTS_OTHER_NAMES: Final = re.compile(r"https?://[^/]+\.azure\.com(?:[:/]|$)")
"""Hosts whose list has the vendor's models, while requests name the deployments of a customer."""


class OnlineResult(State):
    """The result: `faults`, `warnings` about what could not be checked, and one line for each provider that works."""

    faults: list[Fault] = field(default_factory=list)
    warnings: list[Fault] = field(default_factory=list)
    working: list[str] = field(default_factory=list)


async def check_providers(snapshot: Snapshot) -> OnlineResult:
    """Test all provider entries that are on, at most `MOST_AT_A_TIME` together. Each test has a time limit."""
    places = asyncio.Semaphore(MOST_AT_A_TIME)
    providers = {name: provider for name, provider in snapshot.targets.providers.items() if provider.lane is not None}

    async def check(name: str, key: str) -> ConnectionTest:
        async with places:
            return await check_connection(snapshot, name, key=key)

    keys = [(name, key) for name, provider in providers.items() for key in _list_keys(provider)]
    tests = await asyncio.gather(*(check(name, key) for name, key in keys))
    result = OnlineResult()
    for name, provider in providers.items():
        own = [test for (tested, _), test in zip(keys, tests, strict=True) if tested == name]
        _add_tests(result, snapshot, provider, name, own)
    return result


def _list_keys(provider: ConfiguredProvider) -> list[str]:
    """Return the fingerprints of the keys of a provider with several; "" for its only key, or none."""
    return [key.fingerprint for key in provider.keys] or [""]


def _add_tests(
    result: OnlineResult, snapshot: Snapshot, provider: ConfiguredProvider, name: str, tests: list[ConnectionTest]
) -> None:
    """Add the tests of a provider's keys. A model must be listed for one of them."""
    path: KeyPath = ("providers", name)
    for number, test in enumerate(tests, 1):
        which = f"key {number} of {len(tests)}: " if len(tests) > 1 else ""
        if test.ok:
            result.working.append(f"providers.{name}: {which}{test.message}")
        else:
            (result.warnings if test.is_untested else result.faults).append((path, which + test.message))
    listed = list(dict.fromkeys(model.name for test in tests for model in test.models))
    missing = list(_find_missing_models(snapshot.config, name, listed))
    address = provider.capabilities.base_url or provider.entry.base_url or ""
    is_uncertain = len(listed) >= MOST_LISTED_MODELS or _LISTS_OTHER_NAMES.match(address)
    (result.warnings if is_uncertain else result.faults).extend(missing)


def _find_missing_models(config: Config, provider: str, listed: list[str]) -> Iterator[Fault]:
    """Yield the upstream models of conf that a provider does not list. Without a list, or for a wildcard, nothing is known."""
    if not listed:
        return
    known = {canonicalize_name(name) for name in listed}
    known |= {canonicalize_name(_VERSION.sub("", name)) for name in listed}
    names = KnownNames(listed)
    for model in config.models.values():
        for index, target in enumerate(model.targets):
            upstream = resolve_upstream_model(model.name, "", target)
            canonical = canonicalize_name(upstream)
            is_known = canonical in known or canonicalize_name(_VERSION.sub("", upstream)) in known
            if target.provider != provider or "*" in upstream or is_known:
                continue
            path: KeyPath = ("models", model.name)
            path += ("targets", index, "model") if (*path, "targets") in config.lines else ("model",)
            yield path, names.describe_unknown(f"model '{upstream}' at the provider '{provider}'", upstream)
