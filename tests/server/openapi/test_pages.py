"""The pages at /docs."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import httpx

from tornado_gate.server.openapi import sections


class Page(HTMLParser):
    """What a page contains."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: list[str] = []
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.tags.append(tag)
        self.attributes |= values.keys()
        self.links += [value for name in ("href", "src") if (value := values.get(name))]
        self.ids += [identity] if (identity := values.get("id")) else []


def test_the_pages_show_every_route_and_nothing_from_another_host(client: httpx.Client) -> None:
    client = httpx.Client(base_url=client.base_url)  # without a key
    document = client.get("/openapi.json").json()
    overview = client.get("/docs")
    pages = {"/docs": overview}
    links = set(Page(overview.text).links)
    for link in sorted({link.partition("#")[0] for link in links if link.startswith("/docs/")}):
        pages[link] = client.get(link)
    ids = {path: Page(response.text).ids for path, response in pages.items()}
    for path, response in pages.items():
        page = Page(response.text)
        assert response.status_code == 200, path
        assert len(response.content) < 150_000, path
        assert not {"script", "style", "form", "iframe", "img"} & set(page.tags), path
        assert not [name for name in page.attributes if name.startswith("on") or name == "style"], path
        assert all(link.startswith(("/", "#")) for link in page.links), path
        assert len(ids[path]) == len(set(ids[path])), path
        assert page.tags.count("h1") == page.tags.count("main") == 1, path
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert str(client.base_url).rstrip("/") in response.text or path in ("/docs", "/docs/errors", "/docs/files"), (
            path
        )
        for link in page.links:
            target, _, anchor = link.partition("#")
            assert not anchor or target not in pages or anchor in ids[target] or anchor == "content", link
            if target and target not in pages:
                assert client.get(target).status_code in (200, 302), link
    for operations in document["paths"].values():
        for operation in operations.values():
            assert any(operation["operationId"] in found for found in ids.values()), operation["operationId"]


def test_a_page_that_does_not_exist_is_not_found(client: httpx.Client) -> None:
    for path in ("/docs/none", "/docs/%2e%2e/metrics", "/docs/%3Cscript%3E", "/docs/chat/more", "/docs/" + "x" * 2000):
        response = client.get(path)
        assert response.status_code == 404, path
        assert "<script" not in response.text
    assert client.post("/docs").status_code == 405
    assert client.get("/docs/").status_code == 200


def test_a_search_finds_routes_by_all_their_words(client: httpx.Client) -> None:
    page = client.get("/docs/search", params={"q": "CHAT completion"}).text
    assert 'href="/docs/chat#' in page
    assert "/v1/embeddings" not in page
    hostile = client.get("/docs/search", params={"q": "<script>alert(1)</script>" * 50}).text
    assert "No route has all words" in hostile
    assert "<script" not in hostile
    assert "Type a word" in client.get("/docs/search").text


def test_texts_of_a_description_are_escaped() -> None:
    text = "a `<b>` **<i>**\n\n<script>alert('1')</script>"
    rendered = sections.render_text(text)
    assert rendered.startswith("<p>a <code>&lt;b&gt;</code> <strong>&lt;i&gt;</strong></p>")
    assert not re.search(r"<(script|b|i)>", rendered)


def test_types_are_told_in_words() -> None:
    document = {"components": {"schemas": {"Name": {"type": "string", "maxLength": 5}}}}
    expected = {
        "integer, 1 to 128, or null": {"type": ["integer", "null"], "minimum": 1, "maximum": 128},
        "one of a, b": {"type": "string", "enum": ["a", "b", None]},
        "string, at most 5 characters or null": {"anyOf": [{"$ref": "#/components/schemas/Name"}, {"type": "null"}]},
        "array of string": {"type": "array", "items": {"type": "string"}},
        "any value": {},
        '"message"': {"const": "message"},
    }
    for words, schema in expected.items():
        assert sections.describe_kind(document, schema) == words
