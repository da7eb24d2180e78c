"""Stream chunks, each a complete response object, as common stream events: the client half, lenient. Pure.

Text and thoughts come in chunks, other parts whole. A part ends when a part of another kind starts, or with its signature,
which may come in a chunk without text. Parts after a candidate's finish reason are ignored.

Source: google-genai 3.4, types.GenerateContentResponse.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any

from tornado_gate.errors import UpstreamError
from tornado_gate.streams import stages
from tornado_gate.types import (
    Audio,
    Citation,
    Data,
    Finish,
    Opaque,
    PartDelta,
    PartEnd,
    PartKind,
    PartStart,
    ResponseStart,
    StreamError,
    StreamEvent,
    Text,
    Thinking,
    ToolCall,
    Usage,
    UsageReport,
)
from tornado_gate.types.value import replace
from tornado_gate_gemini.wire.generate.audio import decode_base64
from tornado_gate_gemini.wire.generate.errors import find_error
from tornado_gate_gemini.wire.generate.grounding import read_citations, read_uses
from tornado_gate_gemini.wire.generate.json_values import read_object, read_objects, read_string, select_unknown
from tornado_gate_gemini.wire.generate.logprobs import parse_logprobs
from tornado_gate_gemini.wire.generate.names import convert_to_camel_case
from tornado_gate_gemini.wire.generate.response import (
    CANDIDATE_MEMBERS,
    METADATA,
    RESPONSE_MEMBERS,
    get_index,
    make_call_id,
    parse_said,
    read_block_message,
    read_explanation,
)
from tornado_gate_gemini.wire.generate.usage import find_block_reason, parse_finish_reason, parse_usage


def parse_stream(chunks: AsyncIterator[Any], *, cites: bool = False) -> AsyncIterator[StreamEvent]:
    """Common stream events. `chunks` is the parsed objects, as from `sse.read_json_frames`.

    With `cites` texts are kept to locate citations; without it, citations have no start and end.
    Raises UpstreamError for data that is not a chunk. A truncated stream ends without a Finish, which the core reports as an
    error.
    """
    return stages.add_step(chunks, _GenerateStreamParser(cites))


class _GenerateStreamParser(stages.Step[Any, StreamEvent]):
    """State of one stream."""

    takes_large = True

    def __init__(self, cites: bool) -> None:
        self._cites = cites
        self._started = False
        self._usage: Usage | None = None
        self._counts: Any = None
        self._candidates: dict[int, _CandidateParser] = {}
        self._next_part = itertools.count().__next__

    def take(self, items: list[Any], out: list[StreamEvent]) -> bool:
        for chunk in items:
            if (error := find_error(chunk)) is not None:
                out.append(StreamError(error=error))
                return True
            if not isinstance(chunk, dict):
                raise UpstreamError(
                    "The upstream sent a stream event that is not a JSON object.",
                    advice="Check the provider's base_url.",
                )
            out.extend(self._parse_chunk(convert_to_camel_case(chunk)))
        return False

    def _parse_chunk(self, chunk: Mapping[str, Any]) -> Iterator[StreamEvent]:
        """The events of one chunk."""
        if not self._started:
            self._started = True
            extra = {
                name: value for name, value in select_unknown(chunk, *RESPONSE_MEMBERS).items() if value is not None
            }
            yield ResponseStart(
                model=read_string(chunk.get("modelVersion")),
                id=read_string(chunk.get("responseId")) or None,
                extra=extra,
            )
        counts = chunk.get("usageMetadata")
        if counts != self._counts:
            self._counts = counts
            usage = parse_usage(counts)
            if usage is not None and usage != self._usage:
                self._usage = usage
                yield UsageReport(usage=usage)
        for value in read_objects(chunk.get("candidates")):
            yield from self._get_candidate(get_index(value)).read(value)
        if (reason := find_block_reason(chunk)) and not self._candidates:
            candidate = self._get_candidate(0)
            candidate.finished = True
            yield Finish(reason="content_filter", raw=reason, explanation=read_block_message(chunk))

    def _get_candidate(self, number: int) -> _CandidateParser:
        if number not in self._candidates:
            self._candidates[number] = _CandidateParser(number, self._next_part, self._cites)
        return self._candidates[number]


class _CandidateParser:
    """State of one candidate. `_open` is the kind and index of the open text or thinking part.

    `_signature` is the signature of the open part, which ends with the next part: metadata about its sources may follow.
    `_texts` are the indexes and pieces of the text parts. `_plain` is the index of an open text to which pieces are only added,
    else -1.
    """

    def __init__(self, number: int, next_part: Callable[[], int], cites: bool) -> None:
        self._number = number
        self._next_part = next_part
        self._cites = cites
        self._open: tuple[PartKind, int] | None = None
        self._signature: Opaque | None = None
        self._plain = -1
        self._texts: dict[int, list[str]] = {}
        self._code_id = ""
        self._extra: dict[str, Any] = {}
        self._calls_tools = False
        self.finished = False

    def read(self, value: Mapping[str, Any]) -> Iterator[StreamEvent]:
        """The events of one entry of ``candidates``."""
        if self.finished:
            return
        result = value.get("logprobsResult")
        logprobs = () if result is None else parse_logprobs(result)
        for part in read_objects(read_object(value.get("content")).get("parts")):
            if self._plain >= 0 and _is_text_alone(part):
                if part["text"] or logprobs:
                    yield PartDelta(index=self._plain, data=part["text"], logprobs=logprobs or None)
                logprobs = ()
                continue
            if "executableCode" in part:
                self._code_id = make_call_id()
            parsed = parse_said(part, code_id=self._code_id)
            if isinstance(parsed, Text | Thinking):
                mine, logprobs = (logprobs, ()) if isinstance(parsed, Text) else ((), logprobs)
                yield from self._append_text(parsed, mine)
            else:
                yield from self._close_part()
                yield from self._emit_part(parsed)
        if logprobs and self._open is not None:
            yield PartDelta(index=self._open[1], logprobs=logprobs)
        for name, member in value.items():
            if name not in CANDIDATE_MEMBERS and member is not None:
                earlier = self._extra.get(name) if name in METADATA else None
                both = (earlier, member) if isinstance(earlier, dict) and isinstance(member, dict) else ()
                self._extra[name] = {**both[0], **both[1]} if both else member
        if raw := read_string(value.get("finishReason")):
            yield from self._finish_candidate(raw)

    def _append_text(self, part: Text | Thinking, logprobs: tuple[Mapping[str, Any], ...]) -> Iterator[StreamEvent]:
        kind: PartKind = "text" if isinstance(part, Text) else "thinking"
        if self._open is None or self._open[0] != kind or (self._signature is not None and part.text):
            if not part.text and part.signature is None:
                return
            yield from self._close_part()
            self._open = (kind, self._next_part())
            if kind == "text":
                self._texts[self._open[1]] = []
            yield PartStart(index=self._open[1], kind=kind, choice=self._number, extra=part.extra)
        index = self._open[1]
        if part.text or logprobs:
            if self._cites and kind == "text":
                self._texts[index].append(part.text)
            yield PartDelta(index=index, data=part.text, logprobs=logprobs or None)
        if part.signature is not None:
            self._signature = part.signature
            if kind == "thinking":
                yield from self._close_part()
        self._plain = index if kind == "text" and self._signature is None and not self._cites else -1

    def _emit_part(self, part: Any) -> Iterator[StreamEvent]:
        """Emit a part that is complete in one chunk."""
        index = self._next_part()
        match part:
            case ToolCall():
                self._calls_tools = True
                yield PartStart(
                    index=index, kind="tool_call", choice=self._number, id=part.id, name=part.name, extra=part.extra
                )
                yield PartDelta(index=index, data=part.arguments)
                yield PartEnd(index=index, signature=part.signature)
            case Audio(source=Data(media_type=media_type, base64=sound)):
                yield PartStart(index=index, kind="audio", choice=self._number, media_type=media_type)
                yield PartDelta(index=index, data=decode_base64(sound))
                yield PartEnd(index=index)
            case _:
                yield PartStart(index=index, kind="vendor", choice=self._number, part=part)
                yield PartEnd(index=index)

    def _close_part(self, citations: tuple[Citation, ...] = ()) -> Iterator[StreamEvent]:
        if self._open is not None:
            index, self._open, self._plain = self._open[1], None, -1
            signature, self._signature = self._signature, None
            yield PartEnd(index=index, signature=signature, citations=citations)

    def _finish_candidate(self, raw: str) -> Iterator[StreamEvent]:
        if METADATA.isdisjoint(self._extra):
            yield from self._close_part()
        else:
            yield from self._add_sources()
        self.finished = True
        reason = parse_finish_reason(raw, self._calls_tools)
        explanation = read_explanation(reason, self._extra)
        yield Finish(reason=reason, raw=raw, choice=self._number, explanation=explanation, extra=self._extra)

    def _add_sources(self) -> Iterator[StreamEvent]:
        """End the open part with all citations, then emit the uses of tools that the candidate has metadata about.

        Texts that have ended get no more citations. Later citations refer to the whole last text, which is empty if no text is
        open.
        """
        texts = [(0, "".join(pieces)) for pieces in self._texts.values()]
        last = len(texts) - 1
        located = read_citations(self._extra, texts or [(0, "")])
        if located and (self._open is None or self._open[0] != "text"):
            yield from self._close_part()
            index, last = self._next_part(), -1
            self._open = ("text", index)
            yield PartStart(index=index, kind="text", choice=self._number)
        citations = (
            citation if text_index == last else replace(citation, start=None, end=None)
            for text_index, citation in located
        )
        yield from self._close_part(tuple(citations))
        for part in read_uses(self._extra, make_call_id):
            yield from self._emit_part(part)


def _is_text_alone(part: Mapping[str, Any]) -> bool:
    """Return whether a part has only text (the most frequent case)."""
    return len(part) == 1 and isinstance(part.get("text"), str)
