"""The answers that an imitation gives. A request selects one by a word in its last text, such as ``plan-calls``.

A plan says what a model has to say; each imitation gives it in its own wire format, and leaves out what the request does not
allow: thinking that is off, calls without tools.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Kind = Literal["thinking", "redacted", "text", "call"]

_WORD: Final = re.compile(r"plan-[a-z]+(?:-[a-z]+)*")


@dataclass(frozen=True, slots=True)
class Item:
    """One block of an answer. `tool` is the number of the called tool in the request, `arguments` its input."""

    kind: Kind
    text: str = ""
    tool: int = 0
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """An answer, and why it ends: "done", "length", "refused", "stopped" by a sequence, "paused", or "window"."""

    items: tuple[Item, ...]
    end: str = "done"


def _think(text: str) -> Item:
    return Item("thinking", text)


def _say(text: str) -> Item:
    return Item("text", text)


def _call(tool: int = 0, **arguments: Any) -> Item:
    return Item("call", tool=tool, arguments=arguments)


_HM: Final = _think("First the question, then the facts.")
_REDACTED: Final = Item("redacted")

PLANS: Final[Mapping[str, Plan]] = {
    "plan-text": Plan((_HM, _say("The sky is blue: ä, 空, 🙂."))),
    "plan-long": Plan((_HM, _say("One. "), _say("Two."))),
    "plan-calls": Plan((_HM, _call(at="sky"))),
    "plan-says-and-calls": Plan((_HM, _say("I will look."), _call(at="sky", deep=[1, {"a": None}]))),
    "plan-parallel": Plan((_HM, _say("Two at once."), _call(at="sky"), _call(1, at="sea"), _call(at="land"))),
    "plan-interleaved": Plan((_HM, _say("So far."), _think("Now the tool."), _call(at="sky"), _call(1))),
    "plan-two-thoughts": Plan((_HM, _think("And a second thought."), _call(at="sky"))),
    "plan-redacted": Plan((_HM, _REDACTED, _call(at="sky"))),
    "plan-only-redacted": Plan((_REDACTED, _say("Done."))),
    "plan-no-arguments": Plan((_call(),)),
    "plan-length": Plan((_HM, _say("And then")), end="length"),
    "plan-refused": Plan((_say("I cannot"),), end="refused"),
    "plan-stopped": Plan((_HM, _say("one ")), end="stopped"),
    "plan-paused": Plan((_HM, _say("So far")), end="paused"),
    "plan-window": Plan((_HM, _say("Too long")), end="window"),
    "plan-json": Plan((_HM, _say('{"city": "Oslo"}'))),
}


def select_plan(text: str) -> Plan:
    """The plan of the last plan word in `text`, the request as JSON."""
    words = [word for word in _WORD.findall(text) if word in PLANS]
    return PLANS[words[-1] if words else "plan-text"]
