"""The section ``alerts``: receivers, and every fault with its line."""

from __future__ import annotations

import pytest

from tests.config.support import Conf
from tornado_gate.config.alerting import EVENTS
from tornado_gate.pipeline.conf_secrets import collect_secrets

HOOK = "type: webhook, url: https://hooks.example/services/T0/B0"
MAIL = "type: email, host: smtp.example.org, from: gate@example.org, to: [ops@example.org]"

FAULTS = [
    ("{}", "type", "is missing; one of webhook, slack, teams, email"),
    ("{type: webhook}", "url", "is missing; a sink of type webhook needs it"),
    ("{type: webhook, url: hooks.example}", "url", "must be a URL such as https://hooks.example/services/…"),
    ("{type: webhook, url: 'https://me:secret@hooks.example'}", "url", "must not contain a user name or password"),
    (f"{{{HOOK}, host: smtp.example.org}}", "host", "does not belong to a sink of type webhook"),
    (f"{{{HOOK}, secret: short}}", "secret", "must be whsec_ and the base64 of at least 24 bytes"),
    (f"{{{HOOK}, events: []}}", "events", "must not be empty; leave the key out for all events"),
    (f"{{{HOOK}, per_minute: 0}}", "per_minute", "must be from 1 to 1000, not 0"),
    (f"{{{MAIL}, url: 'https://hooks.example'}}", "url", "does not belong to a sink of type email"),
    (f"{{{MAIL}, username: gate}}", "password", "a login needs username and password"),
    (
        f"{{{MAIL}, username: gate, password: secret, security: none}}",
        "security",
        "must be starttls or tls with a password, which would be sent in clear otherwise",
    ),
    (
        "{type: email, host: h, from: me, to: [a@b.example]}",
        "from",
        "must be an e-mail address without a name, such as gateway@example.org",
    ),
    (
        "{type: email, host: 'h:25', from: a@b.example, to: [a@b.example]}",
        "host",
        "must be the host name of a mail server, without a port",
    ),
]


@pytest.mark.parametrize(("sink", "key", "message"), FAULTS, ids=[f"{sink} {key}" for sink, key, _ in FAULTS])
def test_each_fault_has_its_line_and_shows_no_secret(conf: Conf, sink: str, key: str, message: str) -> None:
    (fault,) = conf.report(f"server: {{port: 8080}}\nalerts:\n  sinks: {{ops: {sink}}}\n")
    assert fault == f"FILE:3: alerts.sinks.ops.{key}: {message}"


def test_defaults_of_the_types(conf: Conf) -> None:
    text = f"alerts:\n  sinks:\n    hook: {{{HOOK}}}\n    mail: {{{MAIL}}}\n    tls: {{{MAIL}, security: tls, events: [spool]}}\n"
    alerts = conf.load(text).alerts
    assert alerts.interval_seconds == 15
    assert alerts.sinks["hook"].events == frozenset(EVENTS)
    assert (alerts.sinks["mail"].port, alerts.sinks["mail"].security) == (587, "starttls")
    assert (alerts.sinks["tls"].port, alerts.sinks["tls"].events) == (465, frozenset({"spool"}))


def test_addresses_and_passwords_are_secrets(conf: Conf) -> None:
    loaded = conf.load(f"alerts: {{sinks: {{a: {{{HOOK}}}, b: {{{MAIL}, username: gate, password: swordfish}}}}}}\n")
    assert {"https://hooks.example/services/T0/B0", "swordfish"} <= collect_secrets(loaded)
    assert "T0/B0" not in repr(loaded.alerts)
    assert "swordfish" not in repr(loaded.alerts)


def test_there_may_be_no_sink(conf: Conf) -> None:
    assert not conf.load("alerts: {interval_seconds: 60}\n").alerts.sinks
