"""The settings of the plugin's entry in conf."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from marshmallow import Schema, fields, validate

from tornado_gate.codec.fields import Boolean, Integer, Number, String
from tornado_gate.config import load_settings
from tornado_gate.types.value import Value, field

DEFAULT_ENDPOINT: Final = "http://localhost:4318/v1/traces"


class OtelSettingsSchema(Schema):
    """The keys of the entry."""

    endpoint = fields.Url(schemes={"http", "https"}, require_tld=False)
    headers = fields.Dict(keys=String(), values=String())
    service_name = String(validate=validate.Length(min=1))
    resource = fields.Dict(keys=String(), values=String())
    sample = Number(validate=validate.Range(min=0, max=1))
    accept_parent = Boolean()
    propagate = Boolean()
    callers = Boolean()
    provider_names = fields.Dict(keys=String(), values=String())
    queue_spans = Integer(validate=validate.Range(min=1))
    interval_seconds = Number(validate=validate.Range(min=0.05, max=60))
    timeout_seconds = Number(validate=validate.Range(min=0.1, max=60))
    metrics_endpoint = fields.Url(schemes={"http", "https"}, require_tld=False)
    metrics_interval_seconds = Number(validate=validate.Range(min=0.05, max=3600))
    logs_endpoint = fields.Url(schemes={"http", "https"}, require_tld=False)
    log_level = String(validate=validate.OneOf(["debug", "info", "warning", "error"]))


class OtelSettings(Value, frozen=True, kw_only=True):
    """The settings. `endpoint` is the OTLP/HTTP address of the collector, which receives `headers`.

    `resource` are attributes of the service. `sample` is the part of the traces that is recorded, where the caller's
    trace does not decide. `accept_parent`: the trace of the caller is continued. `propagate`: upstreams receive the
    trace. `callers`: spans name the caller's key and account. `provider_names` maps provider entries to values of
    ``gen_ai.provider.name``. At most `queue_spans` ended spans wait to be sent; they are sent every `interval_seconds`.
    `metrics_endpoint` and `logs_endpoint` are the addresses for metrics and logs; "": they are not sent. Metrics are sent
    every `metrics_interval_seconds`, and log records of the gateway from `log_level` on, as many as spans.
    """

    endpoint: str = DEFAULT_ENDPOINT
    headers: Mapping[str, str] = field(default_factory=dict)
    service_name: str = "tornado-gate"
    resource: Mapping[str, str] = field(default_factory=dict)
    sample: float = 1.0
    accept_parent: bool = True
    propagate: bool = True
    callers: bool = False
    provider_names: Mapping[str, str] = field(default_factory=dict)
    queue_spans: int = 4096
    interval_seconds: float = 5.0
    timeout_seconds: float = 5.0
    metrics_endpoint: str = ""
    metrics_interval_seconds: float = 60.0
    logs_endpoint: str = ""
    log_level: str = "info"

    hidden_fields = frozenset({"headers"})


def read_settings(settings: Mapping[str, Any]) -> OtelSettings:
    """Check the settings of conf. Raises ConfigError."""
    return OtelSettings(**load_settings(OtelSettingsSchema, settings))
