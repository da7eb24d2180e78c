"""Base URLs have their version once, and tell whether a key may go to an address."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornado_gate.errors import ConfigError
from tornado_gate.http.base_url import is_same_origin, normalize_base_url

ENDPOINTS = ("/chat/completions", "/models")


@pytest.mark.parametrize(
    ("base_url", "version_path", "expected"),
    [
        ("https://h", "v1", "https://h/v1"),
        (" https://h/ ", "v1", "https://h/v1"),
        ("https://h/v1/", "v1", "https://h/v1"),
        ("https://h/V2", "v1", "https://h/V2"),
        ("https://h/v1beta/openai", "v1", "https://h/v1beta/openai"),
        ("https://h/v1.1", "v1", "https://h/v1.1"),
        ("https://h/version1", "v1", "https://h/version1/v1"),
        ("https://v1.h", "v1", "https://v1.h/v1"),
        ("https://h", "", "https://h"),
        ("https://h/openai", "openai/v1", "https://h/openai/v1"),
        ("https://h/api", "api/v1", "https://h/api/v1"),
        ("https://h/v1/chat/completions", "v1", "https://h/v1"),
        ("https://h/chat/completions/", "v1", "https://h/v1"),
        ("https://h/v1beta/models", "v1beta", "https://h/v1beta"),
        ("", "v1", "https://default.test/v1"),
        ("http://[::1]:8000/v1", "v1", "http://[::1]:8000/v1"),
    ],
)
def test_the_version_is_never_doubled_and_never_missing(base_url: str, version_path: str, expected: str) -> None:
    normalized = normalize_base_url(base_url, version_path, default="https://default.test", endpoints=ENDPOINTS)
    assert normalized == expected


SEGMENT = st.from_regex(r"[a-z0-9.\-]{1,6}", fullmatch=True)


@given(st.lists(SEGMENT, max_size=4), st.lists(SEGMENT, max_size=2), st.booleans())
def test_normalising_twice_changes_nothing_more(path: list[str], version: list[str], slash: bool) -> None:
    version_path = "/".join(version)
    once = normalize_base_url("/".join(["https://h", *path]) + "/" * slash, version_path, endpoints=ENDPOINTS)
    assert not once.endswith("/")
    assert normalize_base_url(once, version_path, endpoints=ENDPOINTS) == once


@pytest.mark.parametrize(
    ("base_url", "message"),
    [
        ("", "must be an http or https URL"),
        ("upstream.example/v1", "must be an http or https URL"),
        ("ftp://h/v1", "must be an http or https URL"),
        ("https://", "must be an http or https URL"),
        ("https://[h/v1", "must be an http or https URL"),
        ("https://h/v1?api-version=1", "query ('?')"),
        ("https://h/v1#x", "fragment ('#')"),
        ("https://user:secret@h/v1", "put the key into api_key"),
    ],
)
def test_what_is_no_base_url_is_a_fault_at_its_key_in_conf(base_url: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        normalize_base_url(base_url, "v1")
    ((path, text),) = caught.value.faults
    assert path == ("base_url",)
    assert message in text
    assert "secret" not in text


@pytest.mark.parametrize(
    ("url", "same"),
    [
        ("https://api.test/v1/chat", True),
        ("HTTPS://API.test:443/x", True),
        ("wss://api.test/v1", True),
        ("http://api.test/v1", False),
        ("https://api.test:8443/v1", False),
        ("https://api.test.evil.test/", False),
        ("https://evil.test/https://api.test/v1", False),
        ("https://u@api.test/", False),
        ("https://@api.test/", False),
        ("https://api.test\\@evil.test/", False),
        ("https://api.test:port/", False),
        ("https://[api.test/", False),
        ("//api.test/v1", False),
        ("", False),
    ],
)
def test_a_key_goes_to_its_own_scheme_host_and_port_only(url: str, same: bool) -> None:
    assert is_same_origin(url, "https://api.test/v1") == same
