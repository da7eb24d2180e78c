"""What a conf entry says: where the upstream is, which models work by task, how often a task is asked about.

Source of the pace: the vendor's own SDK (dashscope 2.0.2, client/base_api.py) asks every second at first and every five in
the end; its pages advise 5 to 10 seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from marshmallow import Schema

from tornado_gate import ProviderEntry
from tornado_gate.codec.fields import Array, Number, String
from tornado_gate.config import load_settings
from tornado_gate_dashscope.address import choose_base_url
from tornado_gate_dashscope.models import TASK_MODELS, is_match

_MAX_PAUSE_SECONDS: Final = 5.0
_PAUSE_FACTOR: Final = 1.5


class DashScopeSettingsSchema(Schema):
    """The keys of a provider entry that are this plugin's."""

    asynchronous = Array(String())
    poll_seconds = Number(least=0.01, most=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class DashScopeSettings:
    """`asynchronous` are patterns of the models that work by task; `poll_seconds` is the first pause before asking."""

    asynchronous: tuple[str, ...] = TASK_MODELS
    poll_seconds: float = 2.0

    def uses_tasks(self, model: str) -> bool:
        """Whether the upstream's model of this name is asked by task."""
        return is_match(model, self.asynchronous)

    def iterate_pauses(self) -> Iterator[float]:
        """Seconds to wait before each question: half as long again every time, up to five seconds or what conf says."""
        pause = self.poll_seconds
        while True:
            yield pause
            pause = min(pause * _PAUSE_FACTOR, max(_MAX_PAUSE_SECONDS, self.poll_seconds))


def read_settings(entry: ProviderEntry) -> tuple[str, DashScopeSettings]:
    """The base address and the facts of a conf entry. Raises ConfigError."""
    settings = load_settings(DashScopeSettingsSchema, entry.settings)
    if "asynchronous" in settings:
        settings["asynchronous"] = tuple(settings["asynchronous"])
    return choose_base_url(entry), DashScopeSettings(**settings)
