"""Drive the cases of a guard in both lanes, in every installed wire format that declares its texts.

On the common lane without the guard, the format renders responses. The upstream of the verbatim lane sends these
responses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tornado_gate.config.model import PluginOptions
from tornado_gate.guards.text_views import view_request
from tornado_gate.testing.answer_texts import join_texts
from tornado_gate.testing.cases import GuardCase
from tornado_gate.testing.conformance.driver import Driver, open_driver
from tornado_gate.testing.conformance.examples import Example
from tornado_gate.testing.conformance.format_check import PROVIDER, split_frames
from tornado_gate.testing.conformance.provider_check import find_formats
from tornado_gate.testing.conformance.recorder import Recorder
from tornado_gate.testing.declaration import Conformance
from tornado_gate.testing.guard_checks import judge_answer, judge_request
from tornado_gate.testing.reference import ReferenceHttpProvider
from tornado_gate.testing.scripted_upstream import ReceivedRequest, UpstreamAnswer
from tornado_gate.testing.wrapper_site import WRAPPER, render_words
from tornado_gate.types import Span
from tornado_gate.types.value import Value, replace

QUESTION = "Hello"


class Trial(Value, frozen=True, kw_only=True):
    """A case in one request of a format. If `is_request` is true, its text is in the request, otherwise in the response."""

    case: GuardCase
    example: Example
    is_request: bool

    def describe(self, lane: str) -> str:
        side = "request" if self.is_request else "answer"
        return f"{side} {self.case.text!r}, {self.example.format} {self.example.name}, {lane} lane"


async def check_formats(
    plugin: Any, options: PluginOptions, requests: Sequence[GuardCase], responses: Sequence[GuardCase]
) -> list[str]:
    """Return the problems of the cases; [] without problems."""
    examples = [example for of_format in find_formats().values() for example in of_format if _is_chat(example)]
    trials = [
        Trial(case=case, example=replace(example, given=_set_prompt(example, case.text)), is_request=True)
        for example in examples
        for case in requests
    ]
    with_question = [replace(example, given=_set_prompt(example, QUESTION)) for example in examples]
    trials += [Trial(case=case, example=example, is_request=False) for example in with_question for case in responses]
    usual = await _collect_replies(trials)
    trials = [trial for trial in trials if trial.is_request or _shows_text(trial, usual[id(trial)])]
    problems = await _drive_trials(plugin, options, trials, {}, frozenset())
    forwarded = [trial for trial in trials if trial.example.route.wire_format]
    speaks = frozenset(trial.example.route.wire_format for trial in forwarded)
    return problems + await _drive_trials(plugin, options, forwarded, usual, speaks)


def _is_chat(example: Example) -> bool:
    """Return whether an example is a plain chat with a prompt, which can hold the cases of guards."""
    return example.operation == example.route.operation == "chat" and bool(
        example.route.texts and not example.has_tool and not example.has_picture and _find_prompt(example) is not None
    )


def _shows_text(trial: Trial, reply: UpstreamAnswer) -> bool:
    """Return whether the usual response has the model's text as a text. Opaque data, such as a compacted conversation,
    does not count.
    """
    return any(trial.case.text in text for text in join_texts(reply.body))


def _find_prompt(example: Example) -> int | None:
    """Return the index of the caller's first text in the body."""
    assert example.route.texts is not None
    texts = view_request(example.route.texts, example.given.body).texts
    return next((number for number, text in enumerate(texts) if text.kind == "user"), None)


def _set_prompt(example: Example, text: str) -> Any:
    """Return the example with another prompt."""
    number = _find_prompt(example)
    assert example.route.texts is not None
    assert number is not None
    view = view_request(example.route.texts, example.given.body)
    body = view.apply([Span(number, 0, len(view.texts[number].text), text)])
    return replace(example.given, body=body)


class _Upstream:
    """The upstream's response to the current trial."""

    def __init__(self, replies: Mapping[int, UpstreamAnswer]) -> None:
        self._replies = replies
        self.trial: Trial | None = None

    def __call__(self, request: ReceivedRequest, _recorder: Recorder) -> UpstreamAnswer:
        trial = self.trial
        if trial is None or id(trial) in self._replies:
            return self._replies.get(id(trial), UpstreamAnswer())
        words = ["Hi."] if trial.is_request else list(trial.case.text)
        return render_words(words, streamed=bool((request.json or {}).get("stream")))


async def _collect_replies(trials: Sequence[Trial]) -> dict[int, UpstreamAnswer]:
    """Return the responses without the guard, as responses of an upstream, by the id of the trial."""
    upstream = _Upstream({})
    replies = {}
    async with open_driver(
        PROVIDER, list(find_formats()), Conformance(), upstream, added={PROVIDER: ReferenceHttpProvider()}
    ) as driver:
        for trial in trials:
            upstream.trial = trial
            answer = (await driver.send(trial.example)).answer
            content_type = answer.headers.get("content-type", "")
            replies[id(trial)] = UpstreamAnswer(steps=split_frames(answer.body), content_type=content_type)
    return replies


async def _drive_trials(
    plugin: Any,
    options: PluginOptions,
    trials: Sequence[Trial],
    replies: Mapping[int, UpstreamAnswer],
    speaks: frozenset[str],
) -> list[str]:
    """Return the problems of all trials on one lane. With `speaks`, this is the verbatim lane."""
    upstream = _Upstream(replies)
    added = {PROVIDER: ReferenceHttpProvider(speaks), WRAPPER: plugin}
    problems: list[str] = []
    async with open_driver(
        PROVIDER, list(find_formats()), Conformance(), upstream, {WRAPPER: options}, added
    ) as driver:
        for trial in trials:
            upstream.trial = trial
            problems += [problem async for problem in _judge_trial(driver, trial, "verbatim" if speaks else "common")]
    return problems


async def _judge_trial(driver: Driver, trial: Trial, lane: str) -> Any:
    exchange = await driver.send(trial.example)
    where = trial.describe(lane)
    problems: Iterator[str]
    if trial.is_request:
        problems = judge_request(trial.case, exchange.answer, [request.body for request in exchange.received])
    else:
        problems = judge_answer(trial.case, exchange.answer, streamed=exchange.is_stream)
    for problem in problems:
        yield f"{where}: {problem}"
    for name, text in exchange.failures.items():
        yield f"{where}: the plugin '{name}' failed: {text}"
