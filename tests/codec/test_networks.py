"""Networks: how they are written, and whether an address lies in one of them."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornado_gate.codec.networks import NetworkSet, compile_networks, format_network, parse_network


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("192.0.2.7/32", "192.0.2.7"),
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("0.0.0.0/0", "0.0.0.0/0"),
        ("2001:DB8:0::/32", "2001:db8::/32"),
        ("::1", "::1"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
        ("::/0", "::/0"),
    ],
)
def test_networks_have_one_spelling(text: str, shown: str) -> None:
    assert format_network(parse_network(text)) == shown


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "such as 192.0.2.7"),
        ("localhost", "not 'localhost'"),
        ("10.1.2.3/8", "write 10.0.0.0/8"),
        ("10.0.0.0/33", "not '10.0.0.0/33'"),
        ("010.1.2.3", "such as"),
        ("fe80::1%eth0", "without a zone"),
        ("10.0.0.0/8, 11.0.0.0/8", "such as"),
        ("1" * 5000, "such as"),
        ("\x00", "such as"),
    ],
)
def test_what_is_no_network_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        parse_network(text)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 250


ADDRESSES = st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6))


@st.composite
def networks(draw: st.DrawFn) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    address = draw(ADDRESSES)
    return ipaddress.ip_network((address, draw(st.integers(0, address.max_prefixlen))), strict=False)


@given(st.lists(networks(), max_size=5), ADDRESSES)
def test_an_address_lies_in_a_set_when_it_lies_in_one_network(
    given_networks: list[ipaddress.IPv4Network | ipaddress.IPv6Network],
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    plain = getattr(address, "ipv4_mapped", None) or address
    expected = any(plain.version == network.version and plain in network for network in given_networks)
    assert (str(address) in NetworkSet(given_networks)) == expected


@given(st.text(max_size=40))
def test_any_text_is_a_network_or_a_value_error(text: str) -> None:
    try:
        network = parse_network(text)
    except ValueError:
        assert text not in compile_networks(("0.0.0.0/0", "::/0"))
        return
    assert parse_network(format_network(network)) == network
