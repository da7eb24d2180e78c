"""Settings of a configuration entry: the base URL, the asynchronous models, the poll interval.

Source of the poll interval: the vendor's SDK (dashscope 2.0.2, client/base_api.py) polls every second at first and every five
seconds later; its documentation recommends 5 to 10 seconds.
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
    """The settings of a provider entry that this plugin defines."""

    asynchronous = Array(String())
    poll_seconds = Number(least=0.01, most=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class DashScopeSettings:
    """The settings. `asynchronous`: name patterns of the models that use tasks; `poll_seconds`: the pause before the
    first poll.
    """

    asynchronous: tuple[str, ...] = TASK_MODELS
    poll_seconds: float = 2.0

    def uses_tasks(self, model: str) -> bool:
        """Return whether the upstream model uses tasks."""
        return is_match(model, self.asynchronous)

    def iterate_pauses(self) -> Iterator[float]:
        """Yield the seconds to wait before each poll. Each pause is 1.5 times the last, up to 5 s, or `poll_seconds` if
        longer.
        """
        pause = self.poll_seconds
        while True:
            yield pause
            pause = min(pause * _PAUSE_FACTOR, max(_MAX_PAUSE_SECONDS, self.poll_seconds))


def read_settings(entry: ProviderEntry) -> tuple[str, DashScopeSettings]:
    """Return the base URL and the settings of a configuration entry. Raises ConfigError."""
    settings = load_settings(DashScopeSettingsSchema, entry.settings)
    if "asynchronous" in settings:
        settings["asynchronous"] = tuple(settings["asynchronous"])
    return choose_base_url(entry), DashScopeSettings(**settings)
