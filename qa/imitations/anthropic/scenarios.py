"""Which scenarios are tried: every feature of every caller, with models of each behaviour, whole and streamed in turn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from qa.imitations.anthropic.own_features import OWN
from qa.imitations.calling.chat_features import CHAT
from qa.imitations.calling.generate_features import GENERATE
from qa.imitations.calling.response_features import RESPONSES
from qa.imitations.calling.scenario import Caller, Feature, Scenario

MODELS: Final = (
    "claude-3-5-haiku-20241022",
    "claude-sonnet-4-20250514",
    "claude-opus-4-1",
    "claude-haiku-4-5",
    "claude-opus-4-5",
    "claude-sonnet-4-6",
    "claude-opus-4-7",
    "claude-opus-4-8",
    "claude-sonnet-5",
    "claude-opus-5",
    "claude-fable-5-1",
    "claude-opus-5-5",
    "claude-sonnet-5-5",
    "claude-haiku-5-5",
)

FEATURES: Final[tuple[tuple[Caller, tuple[Feature, ...]], ...]] = (
    ("chat", CHAT),
    ("responses", RESPONSES),
    ("generate", GENERATE),
    ("messages", OWN),
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
