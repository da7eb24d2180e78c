"""``thinking.display`` on the common lane: whether thinking is shown. The verbatim lane leaves it to the upstream.

"omitted" requests thinking blocks without text. Their signatures stay, because the next turn must return them; a block that has
neither is left out. Without it, and with "summarized", thinking is shown as the upstream sends it.

Source: anthropic-python 2.11, types/thinking_config_adaptive_param.py and thinking_config_enabled_param.py; read 2026-11-22.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from tornado_gate.streams import stages
from tornado_gate.types import PartDelta, PartEnd, PartStart, StreamEvent
from tornado_gate.types.value import Value

_OMITTED: Final = "omitted"


class MessagesState(Value, frozen=True):
    """The response state of a messages request."""

    omits_thinking: bool = False


def read_state(body: Mapping[str, Any]) -> MessagesState | None:
    """The response state of a checked body; None for most."""
    thinking = body.get("thinking")
    return MessagesState(omits_thinking=True) if thinking and thinking.get("display") == _OMITTED else None


def omit_thinking(events: AsyncIterator[StreamEvent]) -> AsyncIterator[StreamEvent]:
    """The events without the text of thinking."""
    return stages.add_step(events, _OmitThinkingStep())


class _OmitThinkingStep(stages.Step[StreamEvent, StreamEvent]):
    __slots__ = ("_open",)

    def __init__(self) -> None:
        self._open: set[int] = set()  # indexes of open thinking parts

    def take(self, items: list[StreamEvent], out: list[StreamEvent]) -> None:
        for event in items:
            match event:
                case PartStart(kind="thinking"):
                    self._open.add(event.index)
                case PartEnd():
                    self._open.discard(event.index)
                case PartDelta() if event.index in self._open:
                    continue
            out.append(event)
