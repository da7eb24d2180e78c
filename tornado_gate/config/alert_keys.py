"""The keys of the section `alerts` of conf; `config/alerting.py` has their meaning and defaults."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from marshmallow import Schema, ValidationError, validates_schema

from tornado_gate.config.alerting import EVENTS, MAIL_PORTS, SINK_TYPES, AlertsConfig, SinkConfig
from tornado_gate.config.values import Integer, List, Seconds, SecretString, Section, String, Table

LEAST_SECRET_BYTES: Final = 24
MOST_SINKS: Final = 20
MOST_RECIPIENTS: Final = 50
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
_MAIL_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,253}")
_HOST = re.compile(r"[A-Za-z0-9._-]{1,253}|\[?[0-9A-Fa-f:]{2,45}\]?")
_HTTP_KEYS: Final = ("url", "secret")
_MAIL_KEYS: Final = ("host", "port", "security", "username", "password", "sender", "recipients")
_WRITTEN: Final = {"sender": "from", "recipients": "to"}


def check_sink_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ValidationError("a sink's name has 1 to 40 letters, digits, _ or -")


def check_sink_url(url: str) -> None:
    """Check the address of a receiver. Messages do not show it, because it is a secret in itself."""
    try:
        parts = urlsplit(url)
        is_sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_sound = False
    if not is_sound or not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        raise ValidationError("must be a URL such as https://hooks.example/services/…")
    if "@" in parts.netloc:
        raise ValidationError("must not contain a user name or password")


def check_secret(secret: str) -> None:
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except ValueError:
        key = b""
    if not secret.startswith("whsec_") or len(key) < LEAST_SECRET_BYTES:
        raise ValidationError(f"must be whsec_ and the base64 of at least {LEAST_SECRET_BYTES} bytes")


def check_mail_address(address: str) -> None:
    if not _MAIL_ADDRESS.fullmatch(address):
        raise ValidationError("must be an e-mail address without a name, such as gateway@example.org")


def check_mail_host(host: str) -> None:
    if not _HOST.fullmatch(host):
        raise ValidationError("must be the host name of a mail server, without a port")


class SinkSchema(Schema):
    type = String(
        choices=SINK_TYPES, required=True, error_messages={"required": f"is missing; one of {', '.join(SINK_TYPES)}"}
    )
    events = List(String(choices=EVENTS), least=1, hint="leave the key out for all events")
    per_minute = Integer(least=1, most=1000)
    url = SecretString(validate=check_sink_url)
    secret = SecretString(validate=check_secret)
    host = String(validate=check_mail_host)
    port = Integer(least=1, most=65535)
    security = String(choices=tuple(MAIL_PORTS))
    username = String()
    password = SecretString()
    sender = String(data_key="from", validate=check_mail_address)
    recipients = List(String(validate=check_mail_address), data_key="to", least=1, hint="write one address or more")

    @validates_schema(skip_on_field_errors=True)
    def check_type(self, data: Mapping[str, Any], **_: Any) -> None:
        """Check that the keys belong to the type of the sink."""
        is_mail = data["type"] == "email"
        needed, foreign = (("host", "sender", "recipients"), _HTTP_KEYS) if is_mail else (("url",), _MAIL_KEYS)
        faults = {
            _write(name): [f"is missing; a sink of type {data['type']} needs it"] for name in needed if name not in data
        }
        if data["type"] != "webhook" and "secret" in data:
            faults["secret"] = ["only a sink of type webhook is signed"]
        for name in foreign:
            if name in data and name != "secret":
                faults[_write(name)] = [f"does not belong to a sink of type {data['type']}"]
        if data.get("security") == "none" and "password" in data:
            faults["security"] = ["must be starttls or tls with a password, which would be sent in clear otherwise"]
        if ("username" in data) != ("password" in data):
            faults["password"] = ["a login needs username and password"]
        if len(data.get("recipients", ())) > MOST_RECIPIENTS:
            faults["to"] = [f"may have {MOST_RECIPIENTS} addresses; use a mailing list"]
        if faults:
            raise ValidationError(faults)


def _write(name: str) -> str:
    return _WRITTEN.get(name, name)


def check_sinks(sinks: Mapping[str, Any]) -> None:
    if len(sinks) > MOST_SINKS:
        raise ValidationError(f"may have {MOST_SINKS} sinks, not {len(sinks)}")


class AlertsSchema(Schema):
    interval_seconds = Seconds(most=3600)
    sinks = Table(
        Section(SinkSchema, example='{type: slack, url: "${SLACK_WEBHOOK_URL}"}'),
        check_name=check_sink_name,
        validate=check_sinks,
    )


def build_alerts(data: Mapping[str, Any]) -> AlertsConfig:
    """Return the section of checked values."""
    sinks = {name: _build_sink(name, entry) for name, entry in data.get("sinks", {}).items()}
    return AlertsConfig(**{**data, "sinks": sinks})


def _build_sink(name: str, entry: Mapping[str, Any]) -> SinkConfig:
    values: dict[str, Any] = dict(entry)
    if "events" in values:
        values["events"] = frozenset(values["events"])
    values["recipients"] = tuple(values.get("recipients", ()))
    if entry["type"] == "email":
        values.setdefault("port", MAIL_PORTS[values.get("security", "starttls")])
    return SinkConfig(name=name, **values)
