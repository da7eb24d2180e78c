"""The tables of `docs/reference/configuration.md`: key, type and default come from the schemas and from the values' classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from marshmallow import INCLUDE, Schema, fields

from tests.reference.kept_tables import fill_tables
from tornado_gate.codec.fields import MAX_INTEGER
from tornado_gate.config import (
    alert_keys,
    model,
    network_keys,
    oidc,
    price_keys,
    routing,
    routing_keys,
    schema,
    tape_keys,
    tapes,
    values,
)
from tornado_gate.types import ResponseRules, Timeouts

KIND: Final = "keys of"
HEAD: Final = ("key", "type", "default", "meaning")
TABLES: Final[Mapping[str, tuple[type[Schema], tuple[type, ...]]]] = {
    "file": (schema.FileSchema, (model.Config,)),
    "server": (schema.ServerSchema, (model.ServerConfig,)),
    "server.tls": (schema.TlsSchema, (model.TlsConfig,)),
    "plugins.NAME": (schema.PluginSchema, (model.PluginOptions,)),
    "providers.NAME": (schema.ProviderSchema, (model.ProviderConfig,)),
    "providers.NAME.timeouts": (schema.TimeoutsSchema, (Timeouts,)),
    "providers.NAME.health_check": (routing_keys.HealthCheckSchema, (routing.HealthCheck,)),
    "providers.NAME.concurrency": (schema.ConcurrencySchema, (model.TargetConcurrency,)),
    "models.NAME": (schema.ModelSchema, (model.ModelEntry,)),
    "models.NAME.targets": (schema.TargetSchema, (model.ModelTarget,)),
    "models.NAME.affinity": (routing_keys.AffinitySchema, (routing.Affinity,)),
    "keys": (schema.KeySchema, (model.KeyEntry,)),
    "users.NAME": (schema.TeamSchema, (model.TeamEntry,)),
    "budget": (schema.BudgetSchema, ()),
    "limits": (schema.LimitsSchema, (model.LimitsConfig,)),
    "bounds": (schema.BoundsSchema, ()),
    "circuits": (routing_keys.CircuitsSchema, (routing.CircuitsConfig,)),
    "retries": (routing_keys.RetriesSchema, (routing.RetriesConfig,)),
    "retries.budget": (routing_keys.RetryBudgetSchema, (routing.RetryBudget,)),
    "media": (schema.MediaSchema, (model.MediaConfig, model.BucketConfig)),
    "videos": (schema.VideosSchema, (model.VideosConfig,)),
    "videos.bounds": (schema.VideoBoundsSchema, ()),
    "tasks": (schema.TasksSchema, (model.TasksConfig,)),
    "state": (schema.StateSchema, (model.StateConfig,)),
    "realtime": (schema.RealtimeSchema, (model.RealtimeConfig,)),
    "cors": (schema.CorsSchema, (model.CorsConfig,)),
    "responses": (schema.ResponsesSchema, (ResponseRules,)),
    "ledger": (schema.LedgerSchema, (model.LedgerConfig,)),
    "tapes": (tape_keys.TapesSchema, (tapes.TapesConfig,)),
    "tapes.rules": (tape_keys.TapeRuleSchema, (tapes.TapeRule,)),
    "network": (network_keys.NetworkSchema, ()),
    "fetch": (schema.FetchSchema, (model.FetchRules,)),
    "console": (schema.ConsoleSchema, (model.ConsoleConfig,)),
    "accounts": (schema.AccountsSchema, (model.AccountsConfig,)),
    "auth": (oidc.AuthSchema, ()),
    "auth.oidc": (oidc.OidcSchema, (model.OidcConfig,)),
}
"""Schema, and the classes of its values with their defaults, by the path of the mapping."""
ELSEWHERE: Final = (
    *(price_keys.RatesSchema, price_keys.TierSchema, price_keys.PriceSchema),
    *(alert_keys.AlertsSchema, alert_keys.SinkSchema),
)
"""Schemas whose keys docs/how-to/prices.md and docs/deployment/alerts.md explain."""
NO_VALUE: Final = "–"
_SIMPLE: Final[Mapping[type, str]] = {
    schema.PluginSwitch: "boolean or mapping",
    routing_keys.AffinitySwitch: "boolean or mapping",
    network_keys.HostList: "list: text",
    values.Section: "mapping",
    values.Boolean: "boolean",
}
_TIMES: Final = ((86_400, "d"), (3600, "h"), (60, "m"))
_SIZES: Final = ((1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB"))


def fill_configuration(text: str) -> str:
    """The page with the columns that come from the code. Raises KeyError for a table of an unknown mapping."""
    return fill_tables(KIND, text, HEAD, 1, _make_rows)


def iterate_schemas(parent: Schema) -> Iterator[type[Schema]]:
    """A schema and all schemas below it."""
    yield type(parent)
    for field in parent.fields.values():
        item = getattr(field, "item", field)
        below = getattr(item, "schema", None)
        if isinstance(below, Schema):
            yield from iterate_schemas(below)


def _make_rows(name: str) -> Iterator[tuple[str, str, str]]:
    used, classes = TABLES[name]
    defaults = {
        field.name: field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
        for owner in reversed(classes)
        for field in msgspec.structs.fields(owner)
        if field.default is not msgspec.NODEFAULT or field.default_factory is not msgspec.NODEFAULT
    }
    for attribute, field in used().fields.items():
        key = field.data_key or attribute
        default = "required" if field.required else describe_default(key, field, defaults.get(attribute))
        yield f"`{key}`", describe_field(key, field), default
    if used().unknown == INCLUDE:
        yield "other keys", NO_VALUE, NO_VALUE


def describe_field(key: str, field: fields.Field[Any]) -> str:
    """The type of a field with its unit and bounds, in words."""
    match field:
        case values.SecretString():
            text = "secret"
        case values.String(choices=choices) if choices:
            text = ", ".join(f"`{choice}`" for choice in choices)
        case values.Integer(least=least, most=most):
            unit = "bytes" if key.endswith("bytes") else "integer"
            text = f"{unit}, {least} or more" if most == MAX_INTEGER else f"{unit}, {least} to {most}"
        case values.Number(least=least):
            text = f"number, {least:g} or more"
        case values.Seconds(most=most):
            text = f"time, at most {format_time(most)}"
        case values.List(item=item):
            text = f"list: {describe_field(key, item)}"
        case values.Table(item=item):
            text = f"names: {describe_field(key, item)}"
        case _:
            text = next((words for kind, words in _SIMPLE.items() if isinstance(field, kind)), "text")
    return text


def describe_default(key: str, field: fields.Field[Any], default: Any) -> str:
    """The default as one writes it in the file; a dash if there is none."""
    if isinstance(default, bool):  # `failover`, whose first word is the default
        return f"`{field.choices[0]}`" if isinstance(field, values.String) else f"`{str(default).lower()}`"
    if default in (None, "") or isinstance(default, (msgspec.Struct, Mapping)):
        return NO_VALUE
    if isinstance(field, values.Seconds):
        return f"`{format_time(default)}`"
    if isinstance(default, int) and key.endswith("bytes"):
        return _format_size(default)
    if isinstance(default, (tuple, frozenset)):
        items = default if isinstance(default, tuple) else sorted(default)
        return f"`[{', '.join(map(str, items))}]`" if items else NO_VALUE
    return f"`{default:g}`" if isinstance(default, float) else f"`{default}`"


def format_time(seconds: float) -> str:
    """A time with the largest unit that divides it."""
    for size, unit in _TIMES:
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g}{unit}"
    return f"{seconds:g}s"


def _format_size(size: int) -> str:
    for unit, name in _SIZES:
        if size >= unit and size % unit == 0:
            return f"`{size}` ({size // unit} {name})"
    return f"`{size}`"
