"""Small imitations of the vendors' APIs: responses to valid requests. They refuse no request.

An imitation is a function that makes the response to a request. `KNOWN` has the functions by the beginning of
`Route.wire_format`. A plugin whose `Capabilities.speaks` names such a format needs no imitation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tornado_gate.testing.conformance.imitations import anthropic, gemini, openai
from tornado_gate.testing.scripted_upstream import Answerer

KNOWN: Final[Mapping[str, Answerer]] = {
    "openai-": openai.answer,
    "anthropic-": anthropic.answer,
    "gemini-": gemini.answer,
}


def find_imitation(speaks: Iterable[str]) -> Answerer | None:
    """Return the imitation of a provider that accepts these wire formats unchanged; None if the kit supports none of
    them.
    """
    for wire_format in sorted(speaks):
        for start, answer in KNOWN.items():
            if wire_format.startswith(start):
                return answer
    return None
