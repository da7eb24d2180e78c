"""What each model accepts, by the vendor's pages: a table of this imitation's own, beside the gateway's.

Sources, read 2026-11-22 unless a row has its own:

- P1 platform.claude.com/docs/en/build-with-claude/thinking-troubleshooting: the thinking types that a model rejects.
- P2 .../build-with-claude/thinking: sampling, prefill, forced tools, display and output limits.
- P3 .../build-with-claude/mid-conversation-system-messages: models with system messages between turns, and their places.
- P4 .../build-with-claude/structured-outputs: models with JSON outputs and strict tools.
- P5 .../build-with-claude/effort: levels by model.
- P6 .../models/{opus-5-5,sonnet-5-5,haiku-5-5}/whats-new-...: breaking changes.
- P7 .../build-with-claude/preserved-thinking: thinking bound to what stood before it.
- P8 the vendor's model overview and deprecation pages, and models.dev at f3fc692 (2026-07-02): output limits of older models.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Final

from qa.imitations.anthropic.refusal import refuse

_LOW: Final = ("low", "medium", "high")
_MAX: Final = (*_LOW, "max")
_ALL: Final = (*_LOW, "xhigh", "max")


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """One model. `thinking`: the accepted types; `default`: the type without one. `off_below`: disabled and between_tools only
    at efforts up to high. `forced`: whether a tool may be forced: "yes", "without thinking", or "no". `sampling`: "all", "one" of
    temperature and top_p, or "none". `bound`: thinking is bound to what stood before it. `omits`: it is not shown by default.
    """

    thinking: tuple[str, ...] = ()
    default: str = "disabled"
    off_below: bool = False
    forced: str = "without thinking"
    sampling: str = "all"
    prefill: bool = True
    system_turns: bool = False
    efforts: tuple[str, ...] = ()
    structured: bool = False
    bound: bool = False
    omits: bool = False
    most_output: int = 8192


_MANUAL: Final = Model(thinking=("enabled", "disabled"), most_output=64000)
_FOUR_FIVE: Final = replace(_MANUAL, sampling="one", structured=True)
_FOUR_SIX: Final = replace(
    _FOUR_FIVE, thinking=("adaptive", "enabled", "disabled"), prefill=False, efforts=_MAX, most_output=128000
)
_FOUR_SEVEN: Final = replace(_FOUR_SIX, thinking=("adaptive", "disabled"), sampling="none", efforts=_ALL, omits=True)
_FIVE: Final = replace(_FOUR_SEVEN, default="adaptive")
_ALWAYS: Final = replace(_FIVE, thinking=("adaptive",), forced="no", system_turns=True)

MODELS: Final[tuple[tuple[str, Model], ...]] = (
    ("claude-3-5-haiku-*", Model()),  # P8; no thinking before 3.7
    ("claude-3-7-sonnet-*", _MANUAL),  # P1, P8
    ("claude-sonnet-4-20*", _MANUAL),  # P1, P8
    ("claude-opus-4-20*", replace(_MANUAL, most_output=32000)),  # P8
    ("claude-opus-4-1*", replace(_MANUAL, sampling="one", most_output=32000)),  # P8; not in P4's list
    ("claude-sonnet-4-5*", _FOUR_FIVE),  # P1, P2, P4
    ("claude-haiku-4-5*", _FOUR_FIVE),
    ("claude-opus-4-5*", replace(_FOUR_FIVE, efforts=_LOW)),  # P2: the only one with budgets and efforts
    ("claude-opus-4-6*", _FOUR_SIX),  # P1; prefill: anthropics/claude-code#52433
    ("claude-sonnet-4-6*", _FOUR_SIX),
    ("claude-opus-4-7*", _FOUR_SEVEN),  # P1, P2; role 'system' is rejected: anthropics/claude-code#61242
    ("claude-opus-4-8*", replace(_FOUR_SEVEN, system_turns=True)),  # P3
    (
        "claude-sonnet-5",
        _FIVE,
    ),  # P1; P3 and P6: no system messages between turns; forced: router-for-me/CLIProxyAPI#4070
    ("claude-opus-5", replace(_FIVE, off_below=True, system_turns=True)),  # P1, P3
    ("claude-fable-5", _ALWAYS),  # P1, P3; forced: pydantic/pydantic-ai#5849
    ("claude-mythos-5", _ALWAYS),
    ("claude-fable-5-1", replace(_ALWAYS, bound=True)),  # P6, P7
    ("claude-opus-5-5", replace(_ALWAYS, bound=True)),  # P6, P7
    (
        "claude-sonnet-5-5",
        replace(_ALWAYS, thinking=("adaptive", "between_tools"), off_below=True, bound=True),
    ),  # P6
    # P6: no page lists it among the models with system messages between turns
    ("claude-haiku-5-5", replace(_FIVE, off_below=True, bound=True)),
)


def find_model(name: str) -> Model:
    """The facts of a model. Refuses names that the vendor does not have."""
    for pattern, model in MODELS:
        if fnmatchcase(name, pattern):
            return model
    refuse(f"model: {name}")
