"""Who a forwarded request comes from: only trusted proxies are believed, and only as far as their own entries reach."""

from __future__ import annotations

from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornado_gate.http.forwarded import Origin, find_origin

TRUSTED = tuple(ip_network(network) for network in ("10.0.0.0/8", "127.0.0.1/32", "fd00::/8"))
PROXY = Origin("10.0.0.1", "http", "gate.internal")
STRANGER = Origin("203.0.113.9", "http", "gate.internal")
SPOOFED = {
    "x-forwarded-for": "1.1.1.1",
    "x-forwarded-proto": "https",
    "x-forwarded-host": "evil.example",
    "forwarded": "for=1.1.1.1;proto=https;host=evil.example",
}


@pytest.mark.parametrize("name", list(SPOOFED))
def test_headers_of_a_stranger_are_ignored(name: str) -> None:
    assert find_origin(STRANGER, {name: SPOOFED[name]}, TRUSTED) == STRANGER
    assert find_origin(PROXY, {name: SPOOFED[name]}, ()) == PROXY


@pytest.mark.parametrize(
    ("chain", "address"),
    [
        ("198.51.100.7", "198.51.100.7"),
        ("1.1.1.1, 198.51.100.7", "198.51.100.7"),  # the caller invented the first
        ("198.51.100.7, 10.0.0.5", "198.51.100.7"),
        ("1.1.1.1,198.51.100.7 , 10.0.0.5,10.9.9.9", "198.51.100.7"),
        ("10.0.0.7, 10.0.0.5", "10.0.0.7"),  # a caller inside
        ("198.51.100.7:51234", "198.51.100.7"),
        ("2001:db8::7", "2001:db8::7"),
        ("[2001:db8::7]:443", "2001:db8::7"),
        ("::ffff:198.51.100.7, ::ffff:10.0.0.5", "198.51.100.7"),
        ("unknown", "10.0.0.1"),
        ("198.51.100.7, unknown", "10.0.0.1"),  # what is left of an entry that cannot be read is unknown
        ("198.51.100.7, ,", "10.0.0.1"),
        ("", "10.0.0.1"),
    ],
)
def test_the_list_is_walked_from_the_right(chain: str, address: str) -> None:
    assert find_origin(PROXY, {"x-forwarded-for": chain}, TRUSTED).address == address


@pytest.mark.parametrize(
    ("headers", "origin"),
    [
        ({"x-forwarded-proto": "https", "x-forwarded-host": "api.example"}, ("10.0.0.1", "https", "api.example")),
        (
            {"x-forwarded-for": "198.51.100.7", "x-forwarded-proto": "https", "x-forwarded-host": "api.example:8443"},
            ("198.51.100.7", "https", "api.example:8443"),
        ),
        (
            {"x-forwarded-for": "198.51.100.7, 10.0.0.5", "x-forwarded-proto": "http, https, http"},
            ("198.51.100.7", "https", "gate.internal"),
        ),
        (
            {"x-forwarded-for": "198.51.100.7, 10.0.0.5", "x-forwarded-proto": "https"},
            ("198.51.100.7", "https", "gate.internal"),
        ),
        ({"x-forwarded-proto": "javascript", "x-forwarded-host": "a/b"}, ("10.0.0.1", "http", "gate.internal")),
        ({"forwarded": "for=198.51.100.7;proto=https;host=api.example"}, ("198.51.100.7", "https", "api.example")),
        (
            {"forwarded": 'For="[2001:db8::7]:4711"; Proto=HTTPS;by=10.0.0.2, for=10.0.0.5;proto=http;host=inner'},
            ("2001:db8::7", "https", "inner"),
        ),
        ({"forwarded": 'for=1.1.1.1, for="198.51.100.7", for=10.0.0.5'}, ("198.51.100.7", "http", "gate.internal")),
        ({"forwarded": "for=_hidden;proto=https"}, ("10.0.0.1", "http", "gate.internal")),
    ],
)
def test_scheme_and_host_come_from_the_same_proxy(headers: dict[str, str], origin: tuple[str, str, str]) -> None:
    assert find_origin(PROXY, headers, TRUSTED) == Origin(*origin)


def test_two_headers_that_contradict_each_other_are_not_believed() -> None:
    """A proxy that sets one of them passes what the caller has written into the other."""
    headers = {"x-forwarded-for": "198.51.100.7", "forwarded": "for=1.1.1.1"}
    assert find_origin(PROXY, headers, TRUSTED) == PROXY
    assert find_origin(PROXY, headers | {"forwarded": "for=198.51.100.7"}, TRUSTED).address == "198.51.100.7"


@given(
    spoofed=st.text(max_size=60),
    name=st.sampled_from(["x-forwarded-for", "forwarded"]),
    peer=st.sampled_from([PROXY, STRANGER]),
)
def test_nothing_left_of_the_callers_own_address_matters(spoofed: str, name: str, peer: Origin) -> None:
    own = "198.51.100.7" if name == "x-forwarded-for" else "for=198.51.100.7"
    found = find_origin(peer, {name: f"{spoofed}, {own}"}, TRUSTED)
    assert found.address == ("198.51.100.7" if peer is PROXY else STRANGER.address)


@given(st.dictionaries(st.sampled_from(list(SPOOFED)), st.text(alphabet='",;=for[]:.1a ', max_size=40)))
def test_any_text_gives_an_address(headers: dict[str, str]) -> None:
    found = find_origin(PROXY, headers, TRUSTED)
    assert found.address
    assert found.protocol in ("http", "https")
