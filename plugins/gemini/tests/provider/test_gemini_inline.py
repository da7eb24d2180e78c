"""Addresses become bytes where an upstream takes none, each by the one fetcher, and never too many."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field

import pytest

from tornado_gate.errors import InvalidField, NotFound
from tornado_gate.testing import call_to, chat
from tornado_gate.types import ChatRequest, Data, Image, Link, Message, Part, Text, replace
from tornado_gate_gemini.provider.inline import MAX_LINKS, inline_links


@dataclass
class Fetched:
    media_type: str = "image/png"
    data: bytes = b"bytes"


@dataclass
class FakeFetcher:
    asked: list[tuple[str, str]] = field(default_factory=list)

    async def fetch(self, url: str, *, kinds: Collection[str], param: str) -> Fetched:
        self.asked.append((url, param))
        if "bad" in url:
            raise InvalidField(param, "cannot be had")
        return Fetched()


def saying(*parts: Part) -> ChatRequest:
    return replace(chat(), messages=(Message(role="user", parts=parts),), names={"messages": "contents"})


def run(request: ChatRequest, fetcher: FakeFetcher | None, needs: bool = True, shared: str = "file") -> ChatRequest:
    call = call_to(fetcher=fetcher)
    call = replace(call, target=replace(call.target, shared_objects=frozenset({shared})))
    return asyncio.run(inline_links(call, request, lambda _link: needs))


PICTURE = Image(source=Link(url="https://x.test/a"), detail="low")


def test_an_address_becomes_the_bytes_that_are_there() -> None:
    fetcher = FakeFetcher()
    request = run(saying(Text(text="Look"), PICTURE), fetcher)
    assert fetcher.asked == [("https://x.test/a", "contents.0.content.1")]
    source = Data(media_type="image/png", base64="Ynl0ZXM=")
    assert request.messages[0].parts == (Text(text="Look"), replace(PICTURE, source=source))


def test_what_the_upstream_takes_as_it_is_stays() -> None:
    request = saying(PICTURE, Image(source=Link(url="gs://bucket/a")), Image(source=Data(media_type="a", base64="")))
    assert run(request, FakeFetcher(), needs=False) is request
    fetcher = FakeFetcher()
    run(replace(request, messages=(replace(request.messages[0], parts=request.messages[0].parts[1:]),)), fetcher)
    assert not fetcher.asked


@pytest.mark.parametrize(
    "url",
    [
        "gs://bucket/a",
        "https://generativelanguage.googleapis.com/v1beta/files/a",
        "https://proxy.test/g/v1beta/files/a",
    ],
)
def test_a_file_in_the_providers_account_is_refused_unless_it_is_shared(url: str) -> None:
    request = saying(Image(source=Link(url=url)))
    assert run(request, FakeFetcher(), needs=False) is request
    with pytest.raises(NotFound) as caught:
        run(request, FakeFetcher(), needs=False, shared="cache")
    assert (caught.value.param, caught.value.code) == ("contents.0.content.0", "file_not_found")


def test_without_a_fetcher_nothing_changes() -> None:
    request = saying(PICTURE)
    assert run(request, None) is request


def test_a_file_that_cannot_be_had_is_named_by_its_part() -> None:
    with pytest.raises(InvalidField) as caught:
        run(saying(Image(source=Link(url="https://bad.test/a"))), FakeFetcher())
    assert caught.value.param == "contents.0.content.0"


def test_too_many_addresses_are_refused_before_the_first_is_opened() -> None:
    fetcher = FakeFetcher()
    with pytest.raises(InvalidField) as caught:
        run(saying(*[PICTURE] * (MAX_LINKS + 1)), fetcher)
    assert caught.value.param == f"contents.0.content.{MAX_LINKS}"
    assert not fetcher.asked
