"""The contracts of wrappers and guards: classes of tests to inherit."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from tornado_gate.config.model import PluginOptions
from tornado_gate.testing import wrapper_checks
from tornado_gate.testing.answer_texts import find_main_text, read_values
from tornado_gate.testing.cases import GuardCase
from tornado_gate.testing.differences import GUIDE, check_equal
from tornado_gate.testing.guard_checks import check_requests, check_responses
from tornado_gate.testing.scripted_upstream import json_answer
from tornado_gate.testing.wrapper_site import LANES, Lane, Way, WrapperSite, add_object, describe_answer, render_words
from tornado_gate.types.value import Value


class WrapperCase(Value, frozen=True, kw_only=True):
    """The effect of a wrapper on one request. The caller sends `ask`, the upstream sends `words`, and the caller
    receives `answer`.

    `answer` is the text of the response; None if it is not compared. `status` and `code` belong to a refused request.
    `headers` are headers that the response must have.
    """

    ask: str = "Hello"
    words: Sequence[str] = ("Hello ", "you.")
    answer: str | None = None
    status: int = 200
    code: str = ""
    headers: Mapping[str, str] = {}


class WrapperContract:
    """A wrapper: `plugin` with `settings` behaves as `cases` describe, and changes no other request.

    The tests run a gateway with a reference format and a reference provider, in both lanes, on real sockets.
    `bad_settings` are settings that must be refused with a `ConfigError`. The usual requests, which must pass
    unchanged, ask "Hello".
    """

    plugin: ClassVar[Any]
    settings: ClassVar[Mapping[str, Any]] = {}
    bad_settings: ClassVar[Mapping[str, Any]] = {"no_such_setting": True}
    cases: ClassVar[Sequence[WrapperCase]] = ()

    def options(self) -> PluginOptions:
        return PluginOptions(settings=self.settings)

    def test_unknown_settings_are_refused(self) -> None:
        what = wrapper_checks.find_accepted_settings(add_object(self.plugin), self.bad_settings)
        assert not what, (
            f"{what}. Check settings in configure_plugin with a marshmallow schema and tornado_gate.config.load_settings, which "
            f"raises a ConfigError with the name of the key. See {GUIDE}."
        )

    def test_answers_of_all_kinds_pass_unchanged(self) -> None:
        report(asyncio.run(wrapper_checks.find_changes(add_object(self.plugin), self.options())))

    def test_nothing_is_left_when_the_caller_leaves(self) -> None:
        report(asyncio.run(wrapper_checks.find_leaks(add_object(self.plugin), self.options())))

    def test_a_caller_who_does_not_read_stops_the_upstream(self) -> None:
        report(asyncio.run(wrapper_checks.find_floods(add_object(self.plugin), self.options())))

    def test_the_cases(self) -> None:
        async def run(site: WrapperSite) -> None:
            for case in self.cases:
                for lane in LANES:
                    for streamed in (False, True):
                        await check_case(site, case, lane, streamed=streamed)

        asyncio.run(wrapper_checks.with_site(add_object(self.plugin), self.options(), run))


async def check_case(site: WrapperSite, case: WrapperCase, lane: Lane, *, streamed: bool) -> None:
    """Send the request of a case, and compare the response."""
    answers = render_words(case.words, streamed=streamed)
    if lane == "verbatim" and not streamed:
        answers = json_answer({"answer": "".join(case.words)})
    way = Way(name="case", body={"ask": case.ask, "stream": streamed}, answer=answers)
    answer = await site.send(lane, way)
    where = f"{case.ask!r}, {lane} lane, {'stream' if streamed else 'whole'}"
    assert answer.status == case.status, f"{where}: {describe_answer(answer)}, not status {case.status}. See {GUIDE}."
    for name, value in case.headers.items():
        check_equal(answer.headers.get(name.lower()), value, f"{where}: another header {name}.")
    if case.code:
        check_equal(read_values(answer.body)[0]["error"]["code"], case.code, f"{where}: another code.")
    if case.answer is not None:
        check_equal(find_main_text(answer.body).removesuffix("stop"), case.answer, f"{where}: another answer.")


def report(problems: list[str]) -> None:
    """Raise AssertionError with all problems, if there are any."""
    assert not problems, "\n\n".join([*problems, f"See {GUIDE}."])


class GuardContract(WrapperContract):
    """A guard: `requests` and `responses` are texts of callers and of models, with the expected results.

    They are sent in both lanes, whole and streamed, with every split of the stream into two parts and one character at
    a time, and in each installed wire format that declares its texts.
    """

    requests: ClassVar[Sequence[GuardCase]] = ()
    responses: ClassVar[Sequence[GuardCase]] = ()

    def test_texts_of_requests_are_reviewed(self) -> None:
        report(asyncio.run(check_requests(add_object(self.plugin), self.options(), self.requests)))

    def test_texts_of_answers_are_reviewed_at_every_split(self) -> None:
        report(asyncio.run(check_responses(add_object(self.plugin), self.options(), self.responses)))

    def test_texts_of_every_wire_format_are_reviewed(self) -> None:
        from tornado_gate.testing.guard_formats import check_formats  # imports many modules that few contracts need

        report(asyncio.run(check_formats(self.plugin, self.options(), self.requests, self.responses)))
