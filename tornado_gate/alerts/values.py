"""What is noticed, and what is sent."""

from __future__ import annotations

from typing import Final, Literal

from tornado_gate.types.value import Value

Severity = Literal["warning", "critical"]
Phase = Literal["raised", "resolved", "test"]

LONGEST_CAUSE: Final = 400
LONGEST_TITLE: Final = 200
LONGEST_MESSAGE: Final = 2000


class Alert(Value, frozen=True, kw_only=True):
    """Something that an operator should know. `cause` is the same text in every process and node that sees it.

    `kind` is one of `config.alerting.EVENTS`. A `lasting` alert is resolved when nobody sees its cause any more; another one is
    raised once. Texts contain names of conf and accounts, never secrets.
    """

    kind: str
    cause: str
    severity: Severity
    title: str
    message: str
    lasting: bool = False


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
