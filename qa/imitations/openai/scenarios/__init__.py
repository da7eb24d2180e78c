"""All scenarios."""

from __future__ import annotations

from typing import Final

from qa.imitations.openai.scenario import Scenario
from qa.imitations.openai.scenarios import chat, generate, generate_tools, messages, messages_tools, responses

SCENARIOS: Final[tuple[Scenario, ...]] = (
    *chat.SCENARIOS,
    *responses.SCENARIOS,
    *messages.SCENARIOS,
    *messages_tools.SCENARIOS,
    *generate.SCENARIOS,
    *generate_tools.SCENARIOS,
)
