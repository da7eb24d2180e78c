"""Where the fetcher of client-given addresses never goes, whatever the address looks like and whatever a resolver says."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from ipaddress import ip_address, ip_network

import pytest

from tests.support.fetching import LOOPBACK, change_rules, expect_refusal, expect_refusal_code, fetch_image
from tests.support.site import Names, Site, answer
from tornado_gate.http.fetch import DENIED_PORTS, Fetcher, FetchRules, is_allowed

PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAIAAAACAQAAAABazTCJAAAADElEQVR4nGNgYGAAAAAEAAH2FzhVAAAAAElFTkSuQmCC")


INSIDE = [
    "0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.255.254", "169.254.169.254",
    "168.63.129.16", "172.16.0.1", "172.31.255.255", "192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1",
    "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
    "::", "::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:a9fe:a9fe", "::ffff:0:10.0.0.1", "64:ff9b::10.0.0.1",
    "64:ff9b:1::1", "100::1", "2001::1", "2001:db8::1", "2002:7f00:1::", "2002:a9fe:a9fe::1", "3fff::1", "fc00::1",
    "fd00:ec2::254", "fe80::1", "fec0::1", "ff02::1",
]  # fmt: skip
OUTSIDE = [
    "1.1.1.1", "93.184.216.34", "100.63.255.255", "172.15.0.1", "172.32.0.1", "2606:4700::1111", "::ffff:1.1.1.1",
    "64:ff9b::1.1.1.1", "2002:101:101::1",
]  # fmt: skip


@pytest.mark.parametrize("address", INSIDE)
def test_an_address_inside_is_not_allowed(address: str) -> None:
    assert not is_allowed(ip_address(address), FetchRules())


@pytest.mark.parametrize("address", OUTSIDE)
def test_an_address_of_the_public_internet_is_allowed(address: str) -> None:
    assert is_allowed(ip_address(address), FetchRules())


def test_private_networks_can_be_opened_but_never_where_clouds_keep_secrets() -> None:
    private = FetchRules(allow_private=True)
    opened = {address for address in INSIDE if is_allowed(ip_address(address), private)}
    assert {"10.0.0.1", "127.0.0.1", "::1", "fc00::1", "192.168.1.1", "64:ff9b::10.0.0.1"} <= opened
    secret = {"169.254.169.254", "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "::ffff:a9fe:a9fe"}
    assert not opened & {*secret, "0.0.0.0", "224.0.0.1", "255.255.255.255", "fe80::1"}
    assert is_allowed(ip_address("169.254.1.1"), FetchRules(allow_networks=(ip_network("169.254.1.0/24"),)))


@pytest.mark.gen_test
@pytest.mark.parametrize("address", [*INSIDE, "fe80::1%eth0"])
async def test_a_name_that_leads_inside_is_refused(names: Names, address: str) -> None:
    names.answers["site.test"] = [["93.184.216.34", address]]
    fetcher = Fetcher(resolve=names)
    error = await expect_refusal(fetcher.fetch("https://site.test/", kinds=["image/"], param="image_url"))
    assert error.code == "private_address"
    assert address.partition("%")[0] not in error.message


@pytest.mark.gen_test
@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("127.0.0.1", "private_address"),
        ("127.0.0.1.", "private_address"),
        ("[::1]", "private_address"),
        ("[::ffff:127.0.0.1]", "private_address"),
        ("[::ffff:7f00:1]", "private_address"),
        ("[0:0:0:0:0:0:0:1]", "private_address"),
        ("①②⑦.⓪.⓪.①", "private_address"),
        ("127。0。0。1", "private_address"),
        ("169.254.169.254", "private_address"),
        ("[::FFFF:127.0.0.1]", "private_address"),
        ("[::1].", "invalid_url"),
        ("[::1]x", "invalid_url"),
        ("x[::1]", "invalid_url"),
        ("0X7F.1", "invalid_url"),
        ("site.test%2f@127.0.0.1", "invalid_url"),
        ("2130706433", "invalid_url"),
        ("0x7f000001", "invalid_url"),
        ("0x7f.1", "invalid_url"),
        ("0177.0.0.1", "invalid_url"),
        ("127.1", "invalid_url"),
        ("127.0.0.0x1", "invalid_url"),
        ("127.0.0.1.1", "invalid_url"),
        ("[fe80::1%25eth0]", "invalid_url"),
        ("%31%32%37.0.0.1", "invalid_url"),
        ("a%00b", "invalid_url"),
        ("a b", "invalid_url"),
        ("a..b", "invalid_url"),
        ("[127.0.0.1]", "invalid_url"),
        ("", "invalid_url"),
    ],
)
async def test_no_spelling_of_an_inside_address_gets_through(host: str, code: str) -> None:
    def resolve(name: str, port: int) -> Sequence[str]:
        raise AssertionError(f"{name} was looked up")

    fetcher = Fetcher(resolve=resolve)
    assert await expect_refusal_code(fetcher.fetch(f"http://{host}/", kinds=["image/"], param="image_url")) == code


@pytest.mark.gen_test
@pytest.mark.parametrize(
    "url",
    [
        "",
        "image.png",
        "//site.test/",
        "file:///etc/passwd",
        "ftp://site.test/",
        "gopher://site.test/",
        "http:site.test",
        "http:///etc/passwd",
        "http://user@site.test/",
        "http://user:word@site.test/",
        "http://:word@site.test/",
        "http://site.test\\@127.0.0.1/",
        "http://site.test/\r\nX-Injected: 1",
        "http://site.test/\x00",
        "http://site.test:99999/",
        "http://site.test:0/",
        "http://site.test:22/",
        "http://site.test:6379/",
        "http://site.test/" + "a" * 9000,
        "data:image/png;base64",
        "data:" + "a" * 2000 + ",b",
        "data:image/png;base64,%%%",
    ],
)
async def test_what_is_no_address_of_a_file_is_refused(fetcher: Fetcher, names: Names, url: str) -> None:
    error = await expect_refusal(fetcher.fetch(url, kinds=["image/"], param="image_url"))
    assert error.code == "invalid_url"
    assert (
        "Use a URL" in error.message
        or "Remove them" in error.message
        or "Write it" in error.message
        or "Encode" in error.message
    )
    assert names.asked == []


@pytest.mark.gen_test
async def test_only_named_ports_are_allowed_when_some_are_named(fetcher: Fetcher, site: Site) -> None:
    site.answers["/"] = answer(PNG)
    assert (await fetch_image(change_rules(fetcher, ports=frozenset({site.port})), site)).data == PNG
    assert await expect_refusal_code(fetch_image(change_rules(fetcher, ports=frozenset({443})), site)) == "invalid_url"
    assert not DENIED_PORTS & {80, 443, 8000, 8080, 8443}


@pytest.mark.gen_test
async def test_the_connection_goes_to_the_address_that_was_checked(site: Site) -> None:
    names = Names({"site.test": [["127.0.0.1"], ["10.0.0.1"]]})  # rebinding: the second answer leads inside
    fetcher = Fetcher(FetchRules(allow_networks=(LOOPBACK,)), resolve=names)
    site.answers["/"] = answer(PNG)
    assert (await fetch_image(fetcher, site)).data == PNG
    assert names.asked == ["site.test"]
    assert await expect_refusal_code(fetch_image(fetcher, site)) == "private_address"


@pytest.mark.gen_test
@pytest.mark.parametrize(
    ("location", "code"),
    [
        ("http://inside.test/", "private_address"),
        ("http://10.0.0.1/", "private_address"),
        ("//169.254.169.254/latest/meta-data", "private_address"),
        ("http://2130706433/", "invalid_url"),
        ("http://site.test:22/", "invalid_url"),
        ("http://user@site.test/", "invalid_url"),
        ("file:///etc/passwd", "invalid_url"),
        ("data:image/png;base64,AAAA", "invalid_url"),
        ("http://[", "invalid_url"),
    ],
)
async def test_a_redirect_goes_nowhere_that_a_client_could_not_ask_for(
    fetcher: Fetcher, site: Site, location: str, code: str
) -> None:
    site.answers["/"] = answer(status="302 Found", Location=location)
    error = await expect_refusal(fetch_image(fetcher, site))
    assert error.code == code
    assert not any(word in error.message for word in ("10.1.2.3", "10.0.0.1", "169.254", "inside.test"))
    assert len(site.asked) == 1


@pytest.mark.gen_test
async def test_a_name_that_rebinds_between_redirects_is_refused(site: Site) -> None:
    names = Names({"site.test": [["127.0.0.1"], ["127.0.0.2"]]})
    fetcher = Fetcher(FetchRules(allow_networks=(LOOPBACK,)), resolve=names)
    site.answers["/"] = answer(status="302 Found", Location="/again")
    assert await expect_refusal_code(fetch_image(fetcher, site)) == "private_address"
    assert len(site.asked) == 1


@pytest.mark.gen_test
async def test_redirects_end(fetcher: Fetcher, site: Site) -> None:
    site.answers["/"] = answer(status="302 Found", Location="/")
    assert "3 times" in (await expect_refusal(fetch_image(fetcher, site))).message
    assert len(site.asked) == 4
