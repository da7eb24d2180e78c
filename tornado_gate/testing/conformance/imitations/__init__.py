"""Small imitations of the vendors' APIs: what they answer to a valid request. They refuse nothing.

An imitation is a function that makes the answer to a request. `KNOWN` has them by the beginning of `Route.wire_format`; a plugin
whose `Capabilities.speaks` names such a format needs none of its own.
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
    """The imitation of a provider that accepts these wire formats unchanged; None if the kit knows none of them."""
    for wire_format in sorted(speaks):
        for start, answer in KNOWN.items():
            if wire_format.startswith(start):
                return answer
    return None
