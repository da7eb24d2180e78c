"""The declaration for ``tornado-gate plugins check cascade``: the models of the kit that make speech."""

from tornado_gate.testing import Conformance

conformance = Conformance(
    settings={"chat": "{chat}", "transcription": "{transcription}", "speech": "{speech}"}, api_key=""
)
