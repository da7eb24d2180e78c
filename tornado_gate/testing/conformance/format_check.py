"""Check a format: each of its routes, around a reference provider, in both lanes.

The common lane comes first. There the format renders the responses that an upstream of its wire format would send. The
upstream of the verbatim lane then sends these responses.
"""

from __future__ import annotations

from collections.abc import Sequence

from tornado_gate.errors import GateError
from tornado_gate.plugins.lanes import FormatLane
from tornado_gate.testing.conformance.answers import NO_ANSWER_STATUS
from tornado_gate.testing.conformance.declaration import Declaration
from tornado_gate.testing.conformance.driver import make_host, open_driver
from tornado_gate.testing.conformance.examples import Example, list_examples
from tornado_gate.testing.conformance.provider_check import ProviderCheck
from tornado_gate.testing.conformance.recorder import Recorder
from tornado_gate.testing.conformance.report import PluginReport
from tornado_gate.testing.declaration import Conformance
from tornado_gate.testing.differences import GUIDE
from tornado_gate.testing.reference import OPERATIONS, ReferenceHttpProvider, answer_upstream
from tornado_gate.testing.scripted_upstream import ReceivedRequest, UpstreamAnswer
from tornado_gate.testing.stage import CallerAnswer

PROVIDER = "reference-http"


async def check_format(name: str, declaration: Declaration, report: PluginReport) -> None:
    """Drive the format `name` in both lanes, and record all results in `report`."""
    try:
        host = make_host([name])
        lane = FormatLane(host, host.load(name), [])
        all_examples = list(list_examples(lane, declaration.list_format_examples()))
    except GateError as error:
        return report.fail("routes", name, f"{error.message} See the log of a gateway, or the tests of the plugin.")
    examples = [example for example in all_examples if example.operation in OPERATIONS]
    for operation in sorted({example.operation for example in all_examples} - OPERATIONS):
        report.notes.append(f"operation {operation}: the reference provider does not serve it")
    if not examples:
        what = f"No request of this format is known: ship a FormatContract, or examples in describe_route. See {GUIDE}."
        return report.fail("examples", name, what)
    replies = Replies()
    await _check_lane(name, examples, report, replies)
    speaks = frozenset(example.route.wire_format for example in examples if example.route.wire_format)
    if lane.forwards and speaks and report.passed:
        await _check_lane(name, examples, report, replies, speaks)


async def _check_lane(
    name: str,
    examples: Sequence[Example],
    report: PluginReport,
    replies: Replies,
    speaks: frozenset[str] = frozenset(),
) -> None:
    def answer(request: ReceivedRequest, recorder: Recorder) -> UpstreamAnswer:
        lane = recorder.calls[-1].lane if recorder.calls else "common"
        return replies.find_answer(recorder.example) if lane == "verbatim" else answer_upstream(request)

    provider = {PROVIDER: ReferenceHttpProvider(speaks)}
    async with open_driver(PROVIDER, [name], Conformance(), answer, added=provider) as driver:
        if speaks:
            examples = [
                example
                for example in examples
                if example.route.wire_format in speaks and example.operation == example.route.operation
            ]
        check = ProviderCheck(driver, report, driver.capabilities, replies.keep_answer if not speaks else None)
        await check.run(examples, must_serve={example.operation for example in examples})


class Replies:
    """The responses of the common lane, as responses of an upstream, by example."""

    def __init__(self) -> None:
        self._answers: dict[int, UpstreamAnswer] = {}

    def keep_answer(self, example: Example, answer: CallerAnswer) -> None:
        """Keep a response."""
        content_type = answer.headers.get("content-type", "")
        self._answers[id(example)] = UpstreamAnswer(steps=split_frames(answer.body), content_type=content_type)

    def find_answer(self, example: Example | None) -> UpstreamAnswer:
        """Return the response to an example on the verbatim lane."""
        return self._answers.get(id(example), UpstreamAnswer(status=NO_ANSWER_STATUS))


def split_frames(body: bytes) -> tuple[bytes, ...]:
    """Return the server-sent events of a body, or the body as it is."""
    frames = [frame + b"\n\n" for frame in body.split(b"\n\n") if frame.strip()]
    return tuple(frames) if body.endswith(b"\n\n") and frames else (body,)
