"""Entries of conf: their settings, their faults, and the tokens that are signed with their keys."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from joserfc import jwt
from kling_calls import ACCESS, SECRET, read_claims

import tornado_gate_kling as plugin
from tornado_gate import ProviderEntry
from tornado_gate.errors import ConfigError
from tornado_gate.plugins.host import PluginHost
from tornado_gate.plugins.lanes import ProviderLane
from tornado_gate_kling.account import KlingAccount


def token_of(account: KlingAccount) -> str:
    kind, _, token = account.make_headers()["authorization"].partition(" ")
    assert kind == "Bearer"
    return token


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("", "https://api-singapore.klingai.com/v1"),
        ("https://api-beijing.klingai.com", "https://api-beijing.klingai.com/v1"),
        ("https://api.klingai.com/", "https://api.klingai.com/v1"),
        ("https://api.klingai.com/v1/", "https://api.klingai.com/v1"),
        ("http://127.0.0.1:9/kling", "http://127.0.0.1:9/kling/v1"),
    ],
)
def test_the_version_is_there_once(given: str, expected: str) -> None:
    assert plugin.configure(ProviderEntry(name="k", base_url=given)).base_url == expected


@pytest.mark.parametrize(
    "base_url",
    ["ftp://h.example", "h.example", "https://h.example/?key=1", "https://u:p@h.example", "https://h.example/#a"],
)
def test_an_address_that_cannot_be_right_is_refused(base_url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        plugin.configure(ProviderEntry(name="k", base_url=base_url))
    assert caught.value.faults[0][0] == ("base_url",)


@pytest.mark.parametrize(
    ("api_key", "settings", "path"),
    [
        ("", {"access_key": ACCESS}, ("secret_key",)),
        ("", {"secret_key": SECRET}, ("access_key",)),
        ("other", {"access_key": ACCESS, "secret_key": SECRET}, ("api_key",)),
        (f"{ACCESS}:", {}, ("api_key",)),
        (f":{SECRET}", {}, ("api_key",)),
        ("", {"access_key": 1, "secret_key": SECRET}, ("access_key",)),
        ("", {"acces_key": ACCESS}, ("acces_key",)),
    ],
)
def test_keys_that_are_half_or_double_are_refused_without_being_shown(
    api_key: str, settings: dict[str, Any], path: tuple[str, ...]
) -> None:
    with pytest.raises(ConfigError) as caught:
        plugin.configure(ProviderEntry(name="k", api_key=api_key, settings=settings))
    assert caught.value.faults[0][0] == path
    assert ACCESS not in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "entry",
    [
        ProviderEntry(name="k", api_key=f"{ACCESS}:{SECRET}"),
        ProviderEntry(name="k", settings={"access_key": ACCESS, "secret_key": SECRET}),
    ],
    ids=["together", "apart"],
)
def test_a_token_is_signed_as_the_vendor_wants_it(entry: ProviderEntry) -> None:
    account: KlingAccount = plugin.configure(entry).settings
    account.clock = lambda: 1_800_000_000.75
    token = token_of(account)
    assert read_claims(token) == {"iss": ACCESS, "exp": 1_800_001_800, "nbf": 1_799_999_995}
    assert json.loads(base64.urlsafe_b64decode(token.partition(".")[0] + "==")) == {"alg": "HS256", "typ": "JWT"}


def test_a_token_of_this_moment_is_good_now() -> None:
    account: KlingAccount = plugin.configure(ProviderEntry(name="k", api_key=f"{ACCESS}:{SECRET}")).settings
    claims = read_claims(token_of(account))
    assert claims["iss"] == ACCESS
    jwt.JWTClaimsRegistry().validate(claims)


def test_a_token_is_used_until_a_minute_before_it_ends() -> None:
    times: Iterator[float] = iter([1000.0, 1000.0 + 1740, 1000.0 + 1741])
    account = KlingAccount(access_key=ACCESS, secret_key=SECRET, clock=lambda: next(times))
    first, second, third = token_of(account), token_of(account), token_of(account)
    assert first == second
    assert third != second


def test_one_key_without_a_colon_goes_out_as_it_is() -> None:
    assert plugin.configure(ProviderEntry(name="k", api_key="sk-one")).settings.make_headers() == {
        "authorization": "Bearer sk-one"
    }


def test_an_entry_without_keys_sends_none() -> None:
    assert plugin.configure(ProviderEntry(name="k")).settings.make_headers() == {}


def test_nothing_of_an_account_is_shown() -> None:
    account = KlingAccount(access_key=ACCESS, secret_key=SECRET)
    token = token_of(account)
    shown = repr(account) + repr(KlingAccount(api_key="sk-one-key-of-somebody"))
    assert not any(secret in shown for secret in (ACCESS, SECRET, token, "sk-one-key"))


def test_the_core_takes_the_plugin_for_a_provider_of_videos() -> None:
    host = PluginHost()
    capabilities = ProviderLane(host, host.add("kling", plugin), []).configure(ProviderEntry(name="k"))
    assert capabilities.get_operations("kling-v1") == {"videos"}
    assert capabilities.speaks == frozenset()
    assert not capabilities.videos_may_repeat
