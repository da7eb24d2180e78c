"""Who a forwarded request comes from: only trusted proxies are believed, and only as far as their own entries reach.

A caller whom no trusted proxy names readably is unknown, never the proxy itself.
"""

from __future__ import annotations

import time
from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornado_gate.http.forwarded import MAX_HOPS, MAX_LENGTH, UNKNOWN, Origin, find_origin

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
        ("unknown", UNKNOWN),
        ("198.51.100.7, unknown", UNKNOWN),  # what is left of an entry that cannot be read may be invented
        ("198.51.100.7, unknown, 10.0.0.5", UNKNOWN),
        ("198.51.100.7, ,", UNKNOWN),
        ("", UNKNOWN),
        (" ", UNKNOWN),
        ("198.51.100.7:port", UNKNOWN),
        ("198.51.100.7:", UNKNOWN),
        ("[2001:db8::7", UNKNOWN),
        ("[2001:db8::7]x", UNKNOWN),
        ("fe80::1%eth0", UNKNOWN),
        ("0x7f.1", UNKNOWN),
        ("localhost", UNKNOWN),
        ("1.1.1.1, 198.51.100.7" + ", 10.0.0.5" * (MAX_HOPS - 1), "198.51.100.7"),
        ("198.51.100.7" + ", 10.0.0.5" * MAX_HOPS, UNKNOWN),  # more hops than are read
        ("198.51.100.7" + " " * MAX_LENGTH + ", 10.0.0.5", UNKNOWN),
        ("198.51.100.7" + "7" * MAX_LENGTH, UNKNOWN),
    ],
)
def test_the_list_is_walked_from_the_right(chain: str, address: str) -> None:
    assert find_origin(PROXY, {"x-forwarded-for": chain}, TRUSTED).address == address


@pytest.mark.parametrize(
    ("headers", "origin"),
    [
        ({"x-forwarded-proto": "https", "x-forwarded-host": "api.example"}, (UNKNOWN, "https", "api.example")),
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
        ({"x-forwarded-proto": "javascript", "x-forwarded-host": "a/b"}, (UNKNOWN, "http", "gate.internal")),
        ({"forwarded": "for=198.51.100.7;proto=https;host=api.example"}, ("198.51.100.7", "https", "api.example")),
        (
            {"forwarded": 'For="[2001:db8::7]:4711"; Proto=HTTPS;by=10.0.0.2, for=10.0.0.5;proto=http;host=inner'},
            ("2001:db8::7", "https", "inner"),
        ),
        ({"forwarded": 'for=1.1.1.1, for="198.51.100.7", for=10.0.0.5'}, ("198.51.100.7", "http", "gate.internal")),
        (
            {"forwarded": "for=_hidden;proto=https"},
            (UNKNOWN, "https", "gate.internal"),
        ),  # the proxy says its own scheme
        (
            {"forwarded": 'host="api.example:8443";;for = "198.51.100.7:80";'},
            ("198.51.100.7", "http", "api.example:8443"),
        ),
    ],
)
def test_scheme_and_host_come_from_the_same_proxy(headers: dict[str, str], origin: tuple[str, str, str]) -> None:
    assert find_origin(PROXY, headers, TRUSTED) == Origin(*origin)


def test_two_headers_that_contradict_each_other_are_not_believed() -> None:
    """A proxy that sets one of them passes what the caller has written into the other."""
    headers = {"x-forwarded-for": "198.51.100.7", "forwarded": "for=1.1.1.1;host=evil.example"}
    assert find_origin(PROXY, headers, TRUSTED) == Origin(UNKNOWN, "http", "gate.internal")
    hidden = {"x-forwarded-host": "evil.example", "forwarded": "for=_hidden;proto=https"}
    assert find_origin(PROXY, hidden, TRUSTED) == Origin(UNKNOWN, "http", "gate.internal")
    assert find_origin(PROXY, headers | {"forwarded": "for=198.51.100.7"}, TRUSTED).address == "198.51.100.7"


UNREADABLE = [
    {"forwarded": "for=unknown"},
    {"forwarded": "for=_hidden"},
    {"forwarded": "for=_SEVKISEK;by=203.0.113.43"},
    {"forwarded": ""},
    {"forwarded": "for="},
    {"forwarded": 'for=""'},
    {"forwarded": "for"},
    {"forwarded": "by=203.0.113.43"},
    {"forwarded": "198.51.100.7"},
    {"forwarded": "for=198.51.100.7, proto=https"},
    {"forwarded": "for=198.51.100.7, for=unknown"},
    {"forwarded": "for=198.51.100.7,"},
    {"forwarded": "for=198.51.100.7;for=198.51.100.7"},
    {"forwarded": "for=198.51.100.7;=x"},
    {"forwarded": "for=198.51.100.7;x"},
    {"forwarded": 'for="198.51.100.7'},
    {"forwarded": r'for="198.51.100.7\"'},
    {"forwarded": "for='198.51.100.7'"},
    {"forwarded": "for=198.51.100.7 10.0.0.1"},
    {"forwarded": "for=198.51.100.7" + ", for=10.0.0.5" * MAX_HOPS},
    {"forwarded": "for=198.51.100.7;x=" + "y" * MAX_LENGTH},
    {"x-forwarded-for": "198.51.100.7", "forwarded": ""},
    {"x-forwarded-for": "", "forwarded": "for=198.51.100.7"},
    {"x-forwarded-proto": "https", "forwarded": "for=198.51.100.7"},
    {"x-forwarded-port": "443"},
    {"x-real-ip": "198.51.100.7"},
    {"via": "1.1 proxy"},
    {"true-client-ip": "198.51.100.7"},
]


@pytest.mark.parametrize("headers", UNREADABLE, ids=lambda headers: str(headers)[:60])
def test_a_caller_whom_the_proxy_does_not_name_readably_is_unknown(headers: dict[str, str]) -> None:
    """Not the proxy itself, whose address a list of allowed addresses may hold."""
    assert find_origin(PROXY, headers, TRUSTED).address == UNKNOWN


def test_a_request_of_a_trusted_proxy_of_its_own_has_its_address() -> None:
    assert find_origin(PROXY, {"host": "gate.internal", "user-agent": "probe", "traceparent": "00-1"}, TRUSTED) == PROXY


@pytest.mark.parametrize(
    "attack", ["a", "a=", '"', ",", ";", " ", "\\", '"\\', "for=1;", '";"', "for=10.0.0.1,", ":", "["]
)
@pytest.mark.parametrize("name", ["forwarded", "x-forwarded-for", "x-forwarded-host"])
def test_a_header_costs_no_more_than_its_length(name: str, attack: str) -> None:
    text = (attack * 65536)[:65536]
    started = time.thread_time()
    find_origin(PROXY, {name: text}, TRUSTED)
    find_origin(PROXY, {name: text + ", for=198.51.100.7"}, TRUSTED)
    assert time.thread_time() - started < 0.5  # a quadratic parser takes half a minute


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
