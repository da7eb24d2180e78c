"""Where citations of one format are in another: offsets, sources without a URL, and metadata that comes late."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tornado_gate.streams.events import Collector
from tornado_gate.testing import iterate
from tornado_gate.types import ChatResult, Choice, Citation, ServerToolUse, Text, VendorPart
from tornado_gate_anthropic.wire import messages
from tornado_gate_gemini.wire import generate
from tornado_gate_gemini.wire.generate.grounding import read_citations
from tornado_gate_openai.wire import chat as openai_chat
from tornado_gate_openai.wire import responses

URL = "https://example.com/a"
WEB = {"web": {"uri": URL, "title": "A"}}


def ground(*segments: dict[str, Any], chunks: tuple[dict[str, Any], ...] = (WEB,)) -> dict[str, Any]:
    supports = [{"segment": segment, "groundingChunkIndices": [0]} for segment in segments]
    return {"groundingMetadata": {"groundingChunks": list(chunks), "groundingSupports": supports}}


TEXTS = [(0, "é🗼 un."), (2, "Deux é.")]
LONG = "é" * 50


@pytest.mark.parametrize(
    ("segment", "expected"),
    [
        ({"endIndex": 6, "text": "é🗼"}, (0, 0, 2)),
        ({"startIndex": 7, "endIndex": 9, "text": "un"}, (0, 3, 5)),
        ({"partIndex": 2, "startIndex": 5, "endIndex": 7, "text": "é"}, (1, 5, 6)),
        ({"partIndex": 2, "startIndex": 5, "endIndex": 7}, (1, 5, 6)),
        ({"startIndex": 15, "endIndex": 17, "text": "é"}, (1, 5, 6)),  # in the whole text
        ({"startIndex": 1, "endIndex": 5, "text": "Deux"}, (1, 0, 4)),  # wrong offsets
        ({"startIndex": 900, "endIndex": 901, "text": "nowhere"}, (1, None, None)),
        ({"startIndex": 900, "endIndex": 901}, (1, None, None)),
        ({}, (1, None, None)),
        ({"startIndex": "7", "endIndex": "9"}, (0, 3, 5)),  # 64-bit numbers may be strings
    ],
)
def test_a_segment_is_found_by_its_bytes_and_its_words(
    segment: dict[str, Any], expected: tuple[int, int | None, int | None]
) -> None:
    ((place, citation),) = read_citations(ground(segment), TEXTS)
    assert (place, citation.start, citation.end) == expected
    assert (citation.url, citation.title) == (URL, "A")


def test_segments_in_any_order_are_found() -> None:
    segments = [{"startIndex": 2 * place, "endIndex": 2 * place + 4} for place in (30, 10, 20, 0, 48)]
    found = read_citations(ground(*segments), [(0, LONG)])
    assert [(citation.start, citation.end) for _, citation in found] == [(30, 32), (10, 12), (20, 22), (0, 2), (48, 50)]


def test_sources_of_every_kind_are_citations() -> None:
    chunks = (
        {"retrievedContext": {"title": "Manual", "text": "Quoted."}},
        {"maps": {"uri": "https://maps.example", "title": "Place"}},
        {"unknown": {}},
    )
    found = [citation for _, citation in read_citations(ground(chunks=chunks), TEXTS)]
    assert found == [
        Citation(title="Manual", quote="Quoted."),
        Citation(url="https://maps.example", title="Place"),
    ]
    quoted = {"citationMetadata": {"citationSources": [{"startIndex": 7, "endIndex": 9, "uri": URL}]}}
    assert read_citations(quoted, TEXTS) == [(0, Citation(start=3, end=5, url=URL))]


def stream_gemini(*chunks: dict[str, Any], cites: bool = True) -> tuple[Any, ...]:
    async def read() -> ChatResult:
        collector = Collector()
        async for event in generate.parse_stream(iterate(chunks), cites=cites):
            collector.add(event)
        return collector.result()

    return asyncio.run(read()).choices[0].parts


def chunk(*parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"candidates": [{"index": 0, "content": {"parts": list(parts)}, **more}]}


def test_metadata_after_the_last_text_cites_an_empty_one() -> None:
    code = {"executableCode": {"language": "PYTHON", "code": "1"}}
    text, run, late, search = stream_gemini(
        chunk({"text": "Un."}), chunk(code), chunk(finishReason="STOP", **ground({"endIndex": 2, "text": "Un"}))
    )
    assert (text.text, text.citations) == ("Un.", ())
    assert run.server.code == "1"
    assert late == Text(text="", citations=(Citation(url=URL, title="A"),))
    assert search.server.sources == (Citation(url=URL, title="A"),)


def test_a_text_that_ended_before_the_metadata_is_cited_by_the_last_one() -> None:
    code = {"executableCode": {"language": "PYTHON", "code": "1"}}
    segments = ({"endIndex": 2, "text": "Un"}, {"startIndex": 3, "endIndex": 7, "text": "Deux"})
    _, _, last, _ = stream_gemini(
        chunk({"text": "Un."}), chunk(code), chunk({"text": "Deux."}, finishReason="STOP", **ground(*segments))
    )
    assert [(one.start, one.end) for one in last.citations] == [(None, None), (0, 4)]


def test_metadata_in_several_chunks_is_joined() -> None:
    first = {"groundingMetadata": {"webSearchQueries": ["q"], "groundingChunks": [WEB]}}
    supports = [{"segment": {"endIndex": 2, "text": "Un"}, "groundingChunkIndices": [0]}]
    text, search = stream_gemini(
        chunk({"text": "Un."}, **first), chunk(finishReason="STOP", groundingMetadata={"groundingSupports": supports})
    )
    assert [(one.start, one.end) for one in text.citations] == [(0, 2)]
    assert search.server.queries == ("q",)


def test_texts_that_are_not_kept_are_cited_as_a_whole() -> None:
    text, _ = stream_gemini(
        chunk({"text": "Un."}, finishReason="STOP", **ground({"endIndex": 2, "text": "Un"})), cites=False
    )
    assert text.citations == (Citation(url=URL, title="A"),)


DOCUMENT = {"type": "char_location", "cited_text": "Quoted.", "document_index": 0, "document_title": "Manual"}
SOURCES = [
    Citation(url=URL, title="A", start=0, end=2),
    Citation(file_id="file_1", title="a.pdf", start=0, end=2),
    Citation(title="Manual", quote="Quoted.", wire_format="anthropic-messages", value=DOCUMENT),
]


def result(*parts: Any) -> ChatResult:
    return ChatResult(model="m", choices=(Choice(parts=parts, reason="stop"),))


def test_each_format_has_the_sources_that_it_can_name() -> None:
    whole = result(Text(text="Un. "), Text(text="Deux.", citations=tuple(SOURCES)))
    chat = openai_chat.render_response(whole, id="c", model="m", created=1)
    web = {"type": "url_citation", "start_index": 4, "end_index": 6, "title": "A", "url": URL}
    assert chat["choices"][0]["message"]["annotations"] == [
        {"type": "url_citation", "url_citation": {name: web[name] for name in web if name != "type"}}
    ]
    response = responses.render_response(whole, id="resp_1", model="m", created=1, asked={})
    assert response["output"][0]["content"][1]["annotations"] == [
        {**web, "start_index": 0, "end_index": 2},
        {"type": "file_citation", "file_id": "file_1", "filename": "a.pdf", "index": 2},
    ]
    message = messages.render_response(whole, id="msg_1", model="m")
    kinds = [citation["type"] for citation in message["content"][1]["citations"]]
    assert kinds == ["web_search_result_location", "search_result_location", "char_location"]
    assert message["content"][1]["citations"][2] == DOCUMENT
    candidate = generate.render_response(whole, id="r", model="m")["candidates"][0]
    assert candidate["content"]["parts"] == [{"text": "Un. Deux."}]
    assert candidate["groundingMetadata"] == {
        "groundingChunks": [
            {"web": {"uri": URL, "title": "A"}},
            {"retrievedContext": {"title": "a.pdf"}},
            {"retrievedContext": {"title": "Manual", "text": "Quoted."}},
        ],
        "groundingSupports": [
            {"segment": {"startIndex": 4, "endIndex": 6, "text": "De"}, "groundingChunkIndices": [0, 1]},
            {"segment": {"startIndex": 4, "endIndex": 9, "text": "Deux."}, "groundingChunkIndices": [2]},
        ],
    }


def test_pages_that_were_found_are_the_sources_of_a_candidate_without_citations() -> None:
    use = ServerToolUse(id="s", kind="web_search", step="result", sources=(Citation(url=URL, title="A"),))
    found = VendorPart(wire_format="anthropic-messages", value={"type": "web_search_tool_result"}, server=use)
    page = ServerToolUse(id="p", kind="web_fetch", step="call", url=URL)
    read = VendorPart(wire_format="anthropic-messages", value={"type": "server_tool_use"}, server=page)
    body = generate.render_response(result(found, read, Text(text="Un.")), id="r", model="m")
    candidate = body["candidates"][0]
    assert candidate["groundingMetadata"] == {"groundingChunks": [WEB]}
    assert candidate["urlContextMetadata"] == {
        "urlMetadata": [{"retrievedUrl": URL, "urlRetrievalStatus": "URL_RETRIEVAL_STATUS_SUCCESS"}]
    }
    items = responses.render_response(result(read), id="resp_1", model="m", created=1, asked={})["output"]
    assert items[0]["action"] == {"type": "open_page", "url": URL}


def test_a_page_that_another_vendor_read_is_counted_by_messages() -> None:
    page = ServerToolUse(id="p", kind="web_fetch", url=URL)
    whole = result(VendorPart(wire_format="gemini-generate", value={}, server=page), Text(text="Un."))
    message = messages.render_response(whole, id="msg_1", model="m")
    assert [block["type"] for block in message["content"]] == ["text"]
    assert message["usage"]["server_tool_use"] == {"web_search_requests": 0, "web_fetch_requests": 1}
