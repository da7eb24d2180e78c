"""What the upstream of a plugin under test answers: as its imitation says, or as the cases of its contracts say."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tornado_gate.testing.cases import Case
from tornado_gate.testing.conformance.declaration import Declaration
from tornado_gate.testing.conformance.imitations import find_imitation
from tornado_gate.testing.conformance.recorder import Recorder
from tornado_gate.testing.provider_contracts import ProviderContract
from tornado_gate.testing.scripted_upstream import ReceivedRequest, UpstreamAnswer

NO_ANSWER_STATUS = 599
"""The status of the kit's answer to a request whose wire format it does not know."""

MakeAnswer = Callable[[ReceivedRequest, Recorder], UpstreamAnswer]


def choose_answers(declaration: Declaration, speaks: frozenset[str]) -> MakeAnswer:
    """The plugin's own imitation, else the kit's imitation of a wire format that the plugin speaks, else recorded answers."""
    own = declaration.conformance.answer or find_imitation(speaks)
    if own is not None:
        return lambda request, _recorder: own(request)
    return RecordedAnswers(list_cases(declaration))


def list_cases(declaration: Declaration) -> list[Case]:
    """The cases of all contracts of the plugin."""
    found: list[Case] = []
    for contract in declaration.provider_contracts:
        if issubclass(contract, ProviderContract):
            found += contract().list_cases()
    return found


class RecordedAnswers:
    """Answers with the recorded chunks of the case whose request has the class of the current one, and streams as it does."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self._cases = [case for case in cases if case.chunks]

    def __call__(self, request: ReceivedRequest, recorder: Recorder) -> UpstreamAnswer:
        asked = recorder.calls[-1].request if recorder.calls else None
        alike = [case for case in self._cases if type(case.request) is type(asked)]
        streams = bool(getattr(asked, "stream", False))
        case = next((one for one in alike if one.is_stream is streams), alike[0] if alike else None)
        if case is None:
            return UpstreamAnswer(status=NO_ANSWER_STATUS, steps=(b"no recorded answer",), content_type="text/plain")
        content_type = case.content_type or guess_type(case.chunks)
        return UpstreamAnswer(steps=tuple(case.chunks), status=case.status, content_type=content_type)


def guess_type(chunks: Sequence[bytes]) -> str:
    """The Content-Type of a recorded answer without one."""
    start = b"".join(chunks)[:64].lstrip()
    return "text/event-stream" if start.startswith((b"data:", b"event:", b":")) else "application/json"
