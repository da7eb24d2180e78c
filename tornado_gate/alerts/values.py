"""What is noticed, and what is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from tornado_gate.types.value import Value, field

Severity = Literal["warning", "critical"]
Phase = Literal["raised", "resolved", "test"]

LONGEST_CAUSE: Final = 400
LONGEST_TITLE: Final = 200
LONGEST_MESSAGE: Final = 2000


class Words(Value, frozen=True):
    """A text in English: a template with placeholders, and their values. The console translates the template, which
    `make messages` finds in this package.
    """

    template: str
    values: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.template.format_map(self.values)


class Alert(Value, frozen=True, kw_only=True):
    """Something that an operator should know. `cause` is the same text in every process and node that sees it.

    `kind` is one of `config.alerting.EVENTS`. `subject` is what the alert is about: ``provider``, ``key``, ``user`` or
    ``team``, and its name in conf or its id. A `lasting` alert is resolved when nobody sees its cause any more; another one
    is raised once. Texts contain names of conf and accounts, never secrets.
    """

    kind: str
    cause: str
    severity: Severity
    heading: Words
    explanation: Words
    subject: tuple[str, str] = ("", "")
    lasting: bool = False

    @property
    def title(self) -> str:
        return str(self.heading)

    @property
    def message(self) -> str:
        return str(self.explanation)


class Notice(Value, frozen=True, kw_only=True):
    """A message about an alert. `id` is the same for each attempt; `moment` is a Unix time in seconds."""

    id: str
    phase: Phase
    kind: str
    severity: Severity
    title: str
    message: str
    moment: float


class SendFailed(Exception):
    """An error: a message was not accepted. The text is safe to show."""
