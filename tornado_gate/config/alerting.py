"""The values of the section `alerts` of conf: where the gateway reports what an operator should know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from tornado_gate.types.value import Value, field

EVENTS: Final = ("budget", "circuit", "provider_key", "configuration", "key_expiry", "spool")
"""The kinds of alerts. docs/deployment/alerts.md describes when each is raised."""

SinkType = Literal["webhook", "slack", "teams", "email"]
SINK_TYPES: Final = ("webhook", "slack", "teams", "email")
MAIL_PORTS: Final[Mapping[str, int]] = {"starttls": 587, "tls": 465, "none": 25}
"""The usual port of each kind of security of a mail server."""


class SinkConfig(Value, frozen=True, kw_only=True):
    """A receiver of alerts. `url` and `secret` belong to the types with HTTP, the fields from `host` on to ``email``.

    `secret` signs the posts of a ``webhook``: ``whsec_`` and base64. `per_minute` bounds the messages of all nodes together.
    """

    name: str
    type: SinkType
    events: frozenset[str] = frozenset(EVENTS)
    per_minute: int = 10
    url: str = ""
    secret: str = ""
    host: str = ""
    port: int = 0
    security: Literal["starttls", "tls", "none"] = "starttls"
    username: str = ""
    password: str = ""
    sender: str = ""
    recipients: tuple[str, ...] = ()

    hidden_fields = frozenset({"url", "secret", "password"})


class AlertsConfig(Value, frozen=True, kw_only=True):
    """The section ``alerts``. Without sinks the gateway looks for nothing and sends nothing."""

    interval_seconds: float = 15.0
    sinks: Mapping[str, SinkConfig] = field(default_factory=dict)
