"""Entries of conf: addresses, settings, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pluggy
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tornado_gate_anthropic.provider as plugin
from tornado_gate import ProviderEntry
from tornado_gate.errors import ConfigError
from tornado_gate.hookspecs import PROVIDER_PROJECT, ProviderSpec
from tornado_gate_anthropic.provider.settings import AnthropicSettings, read_settings

Entry = Callable[..., ProviderEntry]


def test_the_plugin_meets_the_specification_of_providers() -> None:
    manager = pluggy.PluginManager(PROVIDER_PROJECT)
    manager.add_hookspecs(ProviderSpec)
    manager.register(plugin)
    manager.check_pending()
    hooks = {caller.name for caller in manager.get_hookcallers(plugin) or []}
    assert hooks == {"configure", "translate_request", "translate_response", "list_vendors", "list_models"}


@pytest.mark.parametrize(
    ("base_url", "expected"),
    [
        ("https://h", "https://h/v1"),
        ("https://h/", "https://h/v1"),
        ("https://h/v1", "https://h/v1"),
        ("  https://h/v1//  ", "https://h/v1"),
        ("https://h/v1/messages", "https://h/v1"),
        ("https://h/v1/messages/count_tokens/", "https://h/v1"),
        ("https://h/messages", "https://h/v1"),
        ("https://h/v2", "https://h/v2"),
        ("https://h/anthropic", "https://h/anthropic/v1"),
        ("https://h/anthropic/v1", "https://h/anthropic/v1"),
        ("https://v1.h", "https://v1.h/v1"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1"),
    ],
)
def test_the_version_is_never_doubled_and_never_missing(base_url: str, expected: str) -> None:
    assert read_settings(ProviderEntry(name="a", base_url=base_url))[0] == expected


@given(st.lists(st.from_regex(r"[a-z0-9.\-]{1,6}", fullmatch=True), max_size=4), st.booleans())
def test_normalising_twice_changes_nothing_more(path: list[str], slash: bool) -> None:
    once, _ = read_settings(ProviderEntry(name="a", base_url="/".join(["https://h", *path]) + "/" * slash))
    assert not once.endswith("/")
    assert read_settings(ProviderEntry(name="a", base_url=once))[0] == once


@pytest.mark.parametrize(
    ("base_url", "message"),
    [
        ("upstream.example/v1", "must be an http or https URL"),
        ("ftp://h/v1", "must be an http or https URL"),
        ("https://h/v1?beta=true", "a query"),
        ("https://h/v1#x", "a fragment"),
        ("https://user:secret@h/v1", "put the key into api_key"),
    ],
)
def test_what_is_no_address_is_a_fault_of_base_url(entry: Entry, base_url: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        plugin.configure(entry(base_url))
    ((path, text),) = caught.value.faults
    assert path == ("base_url",)
    assert message in text
    assert "secret" not in text


def test_an_entry_needs_nothing(entry: Entry) -> None:
    capabilities = plugin.configure(entry(""))
    assert capabilities.operations == {"chat", "count_tokens"}
    assert capabilities.speaks == {"anthropic-messages"}
    assert capabilities.base_url == "https://api.anthropic.com/v1"
    assert capabilities.settings == AnthropicSettings()
    assert capabilities.signatures


def test_what_conf_says_is_kept(entry: Entry) -> None:
    said: dict[str, Any] = {
        "version": "2024-01-01",
        "betas": ["a-*", "b"],
        "default_max_tokens": 100,
        "auth": "bearer",
        "thinking": "adaptive",
        "sampling": "none",
        "system_turns": True,
    }
    kept = plugin.configure(entry(**said)).settings
    assert (kept.version, kept.betas, kept.default_max_tokens, kept.auth) == ("2024-01-01", ("a-*", "b"), 100, "bearer")
    facts = kept.model_table.find_features("claude-3-opus")
    assert (facts.thinking, facts.sampling, facts.system_turns) == ("adaptive", "none", True)


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        ({"versions": "x"}, ("versions",)),
        ({"version": 1}, ("version",)),
        ({"version": ""}, ("version",)),
        ({"version": "2023\r\nx: y"}, ("version",)),
        ({"betas": "a"}, ("betas",)),
        ({"betas": [1]}, ("betas", 0)),
        ({"default_max_tokens": 0}, ("default_max_tokens",)),
        ({"default_max_tokens": "many"}, ("default_max_tokens",)),
        ({"auth": "basic"}, ("auth",)),
        ({"thinking": "hard"}, ("thinking",)),
        ({"sampling": True}, ("sampling",)),
        ({"system_turns": "yes"}, ("system_turns",)),
        ({"model_rules": {"claude-*": {"prefil": True}}}, ("model_rules", "claude-*", "prefil")),
    ],
)
def test_a_wrong_setting_is_named(entry: Entry, settings: dict[str, Any], path: tuple[Any, ...]) -> None:
    with pytest.raises(ConfigError) as caught:
        plugin.configure(entry(**settings))
    assert caught.value.faults[0][0] == path
