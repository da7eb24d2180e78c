"""Which scenarios are tried: every feature of every caller, with models of each behaviour, whole and streamed in turn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from qa.imitations.calling.chat_features import CHAT
from qa.imitations.calling.message_features import MESSAGES
from qa.imitations.calling.response_features import RESPONSES
from qa.imitations.calling.scenario import Caller, Feature, Scenario
from qa.imitations.gemini.own_features import OWN

MODELS: Final = (
    "gemini-2.0-flash",
    "gemini-2.5-flash-lite",
    "gemini-2.5-flash",
    "gemini-2.5-pro",
    "gemini-3-pro-preview",
    "gemini-3-flash-preview",
    "gemini-3.1-pro-preview",
    "gemini-3.1-flash-lite",
    "gemini-3.5-flash-lite",
    "gemini-3.5-flash",
    "gemini-3.6-flash",
    "gemini-3.8-flash",
    "gemini-4-neon",
)
FEATURES: Final[tuple[tuple[Caller, tuple[Feature, ...]], ...]] = (
    ("chat", CHAT),
    ("responses", RESPONSES),
    ("messages", MESSAGES),
    ("generate", OWN),
)


def list_scenarios(share: int = 1) -> Iterator[Scenario]:
    """Each feature with each model, or with every `share`-th one, in turn; streamed and whole take turns, too."""
    for caller, features in FEATURES:
        for place, feature in enumerate(features):
            for number, model in enumerate(MODELS):
                if (place + number) % share == 0 and (not feature.models or model in feature.models):
                    yield Scenario(
                        feature=feature, caller=caller, model=model, stream=bool((place + number // share) % 2)
                    )
