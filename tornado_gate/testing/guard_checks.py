"""Drive the cases of a guard: in both lanes, whole and streamed, with every split of the stream, in every wire format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tornado_gate.config.model import PluginOptions
from tornado_gate.testing.answer_texts import contains_text, has_error
from tornado_gate.testing.cases import GuardCase
from tornado_gate.testing.scripted_upstream import UpstreamAnswer, json_answer
from tornado_gate.testing.stage import CallerAnswer
from tornado_gate.testing.wrapper_checks import Add
from tornado_gate.testing.wrapper_site import LANES, Lane, Way, WrapperSite, open_site, render_words


async def check_requests(add: Add, options: PluginOptions, cases: Sequence[GuardCase]) -> list[str]:
    """Return the problems of the texts that the upstream received, in both lanes."""
    problems: list[str] = []
    async with open_site(add, options) as site:
        for case in cases:
            for lane in LANES:
                way = Way(name="request", body={"ask": case.text})
                answer = await site.send(lane, way)
                received = [request.body for request in site.upstream.received]
                where = f"request {case.text!r}, {lane} lane"
                problems += [f"{where}: {what}" for what in judge_request(case, answer, received)]
    return problems


def judge_request(case: GuardCase, answer: CallerAnswer, received: Sequence[bytes]) -> Iterator[str]:
    """Yield the problems of a text that the upstream received."""
    if case.becomes is None:
        if received:
            yield "the request was blocked too late: the upstream got it"
        yield from _judge_block(case, answer)
        return
    if answer.status != 200 or not received:
        yield f"the request was refused with status {answer.status}: {answer.body[:300]!r}"
        return
    sent = received[0]
    if not contains_text(sent, case.becomes):
        yield f"the upstream did not get {case.becomes!r}: {sent[:300].decode('utf-8', 'replace')}"
    for part in list_hidden(case):
        if contains_text(sent, part):
            yield f"the upstream got {part!r}, which must be hidden"


async def check_responses(add: Add, options: PluginOptions, cases: Sequence[GuardCase]) -> list[str]:
    """Return the problems of the texts that the caller received, in both lanes, whole and at every split of a stream."""
    problems: list[str] = []
    async with open_site(add, options) as site:
        for case in cases:
            for lane in LANES:
                whole = json_answer({"answer": case.text}) if lane == "verbatim" else _render_whole(case.text)
                problems += await _check_answer(site, case, lane, whole, "whole", streamed=False)
                for pieces in split_text(case.text):
                    what = f"stream of {pieces!r}"
                    problems += await _check_answer(site, case, lane, render_words(pieces), what, streamed=True)
    return problems[:20]


def _render_whole(text: str) -> UpstreamAnswer:
    return json_answer({"words": [text]})


def split_text(text: str) -> Iterator[list[str]]:
    """Yield the text as one string, as two strings with every possible split, and as single characters."""
    yield [text]
    for at in range(1, len(text)):
        yield [text[:at], text[at:]]
    yield list(text)


async def _check_answer(
    site: WrapperSite, case: GuardCase, lane: Lane, answer: UpstreamAnswer, what: str, *, streamed: bool
) -> list[str]:
    way = Way(name="answer", body={"stream": streamed}, answer=answer)
    response = await site.send(lane, way)
    where = f"answer {case.text!r}, {lane} lane, {what}"
    return [f"{where}: {problem}" for problem in judge_answer(case, response, streamed=streamed)]


def judge_answer(case: GuardCase, answer: CallerAnswer, *, streamed: bool) -> Iterator[str]:
    """Yield the problems of the caller's response with a text of a model."""
    for part in list_hidden(case):
        if contains_text(answer.body, part):
            yield f"the caller got {part!r}, which must be hidden: {answer.body[:300].decode('utf-8', 'replace')}"
    if case.becomes is None:
        if not (streamed and answer.status == 200 and has_error(answer.body)):
            yield from _judge_block(case, answer)
    elif answer.status != 200 or not contains_text(answer.body, case.becomes):
        yield f"the caller did not get {case.becomes!r}: {answer.status} {answer.body[:300].decode('utf-8', 'replace')}"


def _judge_block(case: GuardCase, answer: CallerAnswer) -> Iterator[str]:
    if answer.status != case.status:
        yield f"status {answer.status} instead of {case.status}: {answer.body[:300].decode('utf-8', 'replace')}"
    elif case.code and case.code.encode() not in answer.body:
        yield f"the error has not the code {case.code!r}: {answer.body[:300].decode('utf-8', 'replace')}"


def list_hidden(case: GuardCase) -> Sequence[str]:
    """Return the parts of a text that neither callers nor upstreams may receive."""
    if case.hidden:
        return case.hidden
    return () if case.becomes == case.text else (case.text,)
