"""``groundingMetadata``, ``citationMetadata`` and ``urlContextMetadata`` of candidates, as citations and tool uses. Pure.

A segment counts the UTF-8 bytes of one part (``partIndex``), or, as in the vendor's examples, of the whole text of the candidate.
Its own text decides; a segment that is found nowhere cites the whole last text.

Source: google-genai 3.4, types.GroundingMetadata, Segment, CitationMetadata and UrlContextMetadata;
ai.google.dev/gemini-api/docs/google-search (read 2026-11-22).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tornado_gate.types import Citation, ServerToolUse, VendorPart
from tornado_gate_gemini.wire.generate.json_values import read_count, read_object, read_objects, read_string
from tornado_gate_gemini.wire.generate.names import WIRE_FORMAT

GROUNDING: Final = "groundingMetadata"
CITATIONS: Final = "citationMetadata"
URL_CONTEXT: Final = "urlContextMetadata"
_SUCCESS: Final = "URL_RETRIEVAL_STATUS_SUCCESS"
_SOURCES: Final = ("web", "retrievedContext", "maps", "image")


class _Text:
    """A text part: its place among the parts of the candidate, and a mapping of byte offsets to characters."""

    def __init__(self, place: int, text: str) -> None:
        self.place = place
        self.text = text
        self._bytes = None if text.isascii() else text.encode("utf-8", "surrogatepass")
        self.size = len(text) if self._bytes is None else len(self._bytes)
        self._known = (0, 0)

    def count_characters(self, offset: int) -> int:
        """The characters before a byte offset. Offsets that grow are cheap."""
        if self._bytes is None:
            return min(offset, self.size)
        byte, character = self._known if self._known[0] <= offset else (0, 0)
        character += len(self._bytes[byte:offset].decode("utf-8", "ignore"))
        self._known = (min(offset, self.size), character)
        return character


def read_citations(candidate: Mapping[str, Any], texts: Sequence[tuple[int, str]]) -> list[tuple[int, Citation]]:
    """The citations of a candidate, each with the index in `texts` of the text that it belongs to.

    `texts` are the places and texts of the text parts in order, not empty; a text that is not known is "".
    """
    known = [_Text(index, text) for index, text in texts]
    citations: list[tuple[int, Citation]] = []
    metadata = read_object(candidate.get(GROUNDING))
    sources = [_read_source(chunk) for chunk in read_objects(metadata.get("groundingChunks"))]
    supports = read_objects(metadata.get("groundingSupports"))
    for support in supports:
        indices = support.get("groundingChunkIndices")
        numbers = [number for number in indices if type(number) is int] if isinstance(indices, list) else []
        where = _locate(read_object(support.get("segment")), known)
        citations += [_place(sources[number], where) for number in numbers if 0 <= number < len(sources)]
    if not supports:
        citations += [(len(known) - 1, source) for source in sources]
    metadata = read_object(candidate.get(CITATIONS))
    for value in read_objects(metadata.get("citations")) or read_objects(metadata.get("citationSources")):
        source = Citation(url=read_string(value.get("uri")), title=read_string(value.get("title")))
        citations.append(_place(source, _locate(value, known)))
    return [(index, citation) for index, citation in citations if citation.url or citation.title]


def _read_source(chunk: Mapping[str, Any]) -> Citation:
    for kind in _SOURCES:
        if source := read_object(chunk.get(kind)):
            return Citation(
                url=read_string(source.get("uri")) or read_string(source.get("sourceUri")),
                title=read_string(source.get("title")),
                quote=read_string(source.get("text")),
            )
    return Citation()


def _place(source: Citation, where: tuple[int, int | None, int | None]) -> tuple[int, Citation]:
    text, start, end = where
    return text, Citation(start=start, end=end, url=source.url, title=source.title, quote=source.quote)


def _locate(segment: Mapping[str, Any], texts: Sequence[_Text]) -> tuple[int, int | None, int | None]:
    """(index of the text, first character, character after the last) of a segment."""
    start, end = read_count(segment.get("startIndex")) or 0, read_count(segment.get("endIndex"))
    words = read_string(segment.get("text"))
    if end is not None and end > start:
        for number, first in _list_candidates(read_count(segment.get("partIndex")) or 0, start, texts):
            text = texts[number]
            if start - first < 0 or start - first >= text.size:
                continue
            span = text.count_characters(start - first), text.count_characters(end - first)
            if not words or text.text[span[0] : span[1]] == words:
                return number, *span
    for number, text in enumerate(texts):
        if words and (offset := text.text.find(words)) >= 0:
            return number, offset, offset + len(words)
    return len(texts) - 1, None, None


def _list_candidates(part: int, start: int, texts: Sequence[_Text]) -> Iterator[tuple[int, int]]:
    """The texts that a segment may mean, each with the offset at which it begins: the named part, then the whole text."""
    for number, text in enumerate(texts):
        if text.place == part:
            yield number, 0
    first = 0
    for number, text in enumerate(texts):
        if first <= start < first + text.size:
            yield number, first
        first += text.size


def read_uses(candidate: Mapping[str, Any], make_id: Any) -> Iterator[VendorPart]:
    """The uses of server tools that a candidate only has metadata about. `make_id` returns a new id."""
    metadata = read_object(candidate.get(GROUNDING))
    values = metadata.get("webSearchQueries")
    queries = tuple(value for value in values if isinstance(value, str)) if isinstance(values, list) else ()
    pages = [_read_source(chunk) for chunk in read_objects(metadata.get("groundingChunks")) if "web" in chunk]
    if queries or pages:
        sources = tuple(Citation(url=page.url, title=page.title) for page in pages if page.url)
        yield _make_part(ServerToolUse(id=make_id(), kind="web_search", queries=queries, sources=sources))
    for page in read_objects(read_object(candidate.get(URL_CONTEXT)).get("urlMetadata")):
        if url := read_string(page.get("retrievedUrl")):
            status = read_string(page.get("urlRetrievalStatus"))
            error = "" if status in ("", _SUCCESS) else status
            yield _make_part(ServerToolUse(id=make_id(), kind="web_fetch", url=url, error=error))


def _make_part(use: ServerToolUse) -> VendorPart:
    return VendorPart(wire_format=WIRE_FORMAT, value={}, server=use)


class GroundingWriter:
    """The sources of a candidate of another format, for the metadata of the candidate."""

    def __init__(self) -> None:
        self._chunks: list[dict[str, Any]] = []
        self._places: dict[tuple[str, str, str], int] = {}
        self._supports: dict[tuple[int, int, int], dict[str, Any]] = {}
        self._queries: list[str] = []
        self._pages: list[dict[str, Any]] = []
        self._found: list[Citation] = []

    def add_citations(self, citations: Sequence[Citation], text: str, base: int = 0, part: int = 0) -> None:
        """Add the citations of a text that follows `base` bytes of text in part `part`."""
        for citation in citations:
            number = self._add_source(citation)
            start = 0 if citation.start is None else citation.start
            end = len(text) if citation.end is None else min(citation.end, len(text))
            if start >= end:
                continue
            support = self._supports.get((part, base + start, base + end))
            if support is None:
                first = base + _count_bytes(text[:start])
                segment: dict[str, Any] = {"startIndex": first, "endIndex": first + _count_bytes(text[start:end])}
                segment |= {"text": text[start:end]} | ({"partIndex": part} if part else {})
                support = {"segment": segment, "groundingChunkIndices": []}
                self._supports[part, base + start, base + end] = support
            if number not in support["groundingChunkIndices"]:
                support["groundingChunkIndices"].append(number)

    def _add_source(self, citation: Citation) -> int:
        key = (citation.url, citation.title, "" if citation.url else citation.quote)
        if key not in self._places:
            self._places[key] = len(self._chunks)
            title = {"title": citation.title} if citation.title else {}
            if citation.url:
                self._chunks.append({"web": {"uri": citation.url, **title}})
            else:
                quote = {"text": citation.quote} if citation.quote else {}
                self._chunks.append({"retrievedContext": {**title, **quote}})
        return self._places[key]

    def add_use(self, use: ServerToolUse) -> None:
        """Add a search or a page that was read."""
        self._queries += [query for query in use.queries if query not in self._queries]
        if use.kind == "web_search":
            self._found += use.sources
        if use.kind == "web_fetch" and use.url:
            status = "URL_RETRIEVAL_STATUS_ERROR" if use.error else _SUCCESS
            self._pages.append({"retrievedUrl": use.url, "urlRetrievalStatus": status})

    def render(self) -> dict[str, Any]:
        """The members of the candidate. Pages that were found are its sources if it cites none."""
        if not self._chunks:
            for source in self._found:
                self._add_source(source)
        members = {
            "groundingChunks": self._chunks,
            "groundingSupports": list(self._supports.values()),
            "webSearchQueries": self._queries,
        }
        grounding = {name: member for name, member in members.items() if member}
        rendered: dict[str, Any] = {GROUNDING: grounding} if grounding else {}
        return rendered | ({URL_CONTEXT: {"urlMetadata": self._pages}} if self._pages else {})


def _count_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
