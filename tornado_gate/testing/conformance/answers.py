"""Responses of the upstream of a plugin under test, from its imitation or from the cases of its contracts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tornado_gate.testing.cases import Case
from tornado_gate.testing.conformance.declaration import Declaration
from tornado_gate.testing.conformance.imitations import find_imitation
from tornado_gate.testing.conformance.recorder import Recorder
from tornado_gate.testing.provider_contracts import ProviderContract
from tornado_gate.testing.scripted_upstream import ReceivedRequest, UpstreamAnswer

NO_ANSWER_STATUS = 599
"""The status of the kit's response to a request whose wire format is unknown."""

MakeAnswer = Callable[[ReceivedRequest, Recorder], UpstreamAnswer]


def choose_answers(declaration: Declaration, speaks: frozenset[str]) -> MakeAnswer:
    """Return the plugin's own imitation, else the kit's imitation of a wire format that the plugin accepts, else
    recorded responses.
    """
    own = declaration.conformance.answer or find_imitation(speaks)
    if own is not None:
        return lambda request, _recorder: own(request)
    return RecordedAnswers(list_cases(declaration))


def list_cases(declaration: Declaration) -> list[Case]:
    """Return the cases of all contracts of the plugin."""
    cases: list[Case] = []
    for contract in declaration.provider_contracts:
        if issubclass(contract, ProviderContract):
            cases += contract().list_cases()
    return cases


class RecordedAnswers:
    """Recorded responses. The case is chosen by the class of its request, and by whether it streams."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self._cases = [case for case in cases if case.chunks]

    def __call__(self, request: ReceivedRequest, recorder: Recorder) -> UpstreamAnswer:
        common_request = recorder.calls[-1].request if recorder.calls else None
        alike = [case for case in self._cases if type(case.request) is type(common_request)]
        streams = bool(getattr(common_request, "stream", False))
        case = next((candidate for candidate in alike if candidate.is_stream is streams), alike[0] if alike else None)
        if case is None:
            return UpstreamAnswer(status=NO_ANSWER_STATUS, steps=(b"no recorded answer",), content_type="text/plain")
        content_type = case.content_type or guess_type(case.chunks)
        return UpstreamAnswer(steps=tuple(case.chunks), status=case.status, content_type=content_type)


def guess_type(chunks: Sequence[bytes]) -> str:
    """Return the Content-Type of a recorded response without one."""
    start = b"".join(chunks)[:64].lstrip()
    return "text/event-stream" if start.startswith((b"data:", b"event:", b":")) else "application/json"
