"""The keys of conf about the choice of targets; `config/routing.py` has their meaning and defaults."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from marshmallow import Schema, ValidationError, fields

from tornado_gate.config.faults import Fault
from tornado_gate.config.routing import Affinity, HealthCheck, RetriesConfig, RetryBudget
from tornado_gate.config.values import Integer, List, Number, Seconds, Section, String, boolean_of, describe_type

STRATEGIES = ("weighted", "latency", "least_busy", "cost")

_SOURCE = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+){0,4}")
_PATH = re.compile(r"/[!-~]*")


def check_source(name: str) -> None:
    if not _SOURCE.fullmatch(name):
        raise ValidationError("must be a header, a member of the body such as metadata.user_id, or session_headers")


def check_path(path: str) -> None:
    if not _PATH.fullmatch(path):
        raise ValidationError("must be a path below the base_url, such as /models")


class AffinitySchema(Schema):
    sources = List(
        String(validate=check_source), data_key="from", hint="leave the key out for the usual sources", least=1
    )
    otherwise = String(choices=("prefix", "none"), data_key="else")
    ttl = Seconds()
    most_load = Number(least=1)


class AffinitySwitch(fields.Field[Any]):
    """True, false, or a mapping."""

    schema = AffinitySchema()

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **rest: Any) -> Any:
        if isinstance(value, dict):
            return self.schema.load(value)
        switch = boolean_of(value)
        if not isinstance(switch, bool):
            kind = describe_type(value)
            raise ValidationError(f"must be true, false or a mapping such as {{from: [prompt_cache_key]}}, not {kind}")
        return {} if switch else None


class RetryBudgetSchema(Schema):
    share = Number(least=0)
    minimum = Integer(least=0, most=1000)


class RetriesSchema(Schema):
    same_target = Integer(least=0, most=10)
    backoff_seconds = Seconds()
    max_wait_seconds = Seconds()
    budget = Section(RetryBudgetSchema, example="{share: 0.2, minimum: 3}")


class CircuitsSchema(Schema):
    failures = Integer(least=1)
    open_seconds = Seconds()
    window = Integer(least=2, most=1000)
    failure_share = Number(least=0.01)
    probe_seconds = Seconds()
    refused_key_seconds = Seconds()
    limited_key_seconds = Seconds()


class HealthCheckSchema(Schema):
    path = String(validate=check_path)
    model = String()
    interval = Seconds()
    timeout = Seconds()
    failures = Integer(least=1, most=100)
    successes = Integer(least=1, most=100)


def find_routing_faults(providers: Mapping[str, Mapping[str, Any]]) -> Iterator[Fault]:
    """Yield the faults between the keys of provider entries."""
    for name, entry in providers.items():
        check = entry.get("health_check")
        if check is not None and ("path" in check) == ("model" in check):
            yield ("providers", name, "health_check"), "must have either path or model, such as {path: /models}"
        seen: dict[str, str] = {entry["api_key"]: "api_key"} if entry.get("api_key") else {}
        for index, key in enumerate(entry.get("api_keys") or []):
            if key and seen.setdefault(key, f"api_keys.{index}") != f"api_keys.{index}":
                yield ("providers", name, "api_keys", index), f"is the same key as {seen[key]}; remove one of them"


def build_affinity(values: Mapping[str, Any] | None) -> Affinity | None:
    if values is None:
        return None
    known: dict[str, Any] = {name: tuple(value) if name == "sources" else value for name, value in values.items()}
    return Affinity(**known)


def build_retries(values: Mapping[str, Any], of_model: Mapping[str, Any] = MappingProxyType({})) -> RetriesConfig:
    """Return the retries of conf, with the keys that a model changes."""
    budget = {**values.get("budget", {}), **of_model.get("budget", {})}
    return RetriesConfig(**{**values, **of_model, "budget": RetryBudget(**budget)})


def build_health_check(values: Mapping[str, Any] | None) -> HealthCheck | None:
    return None if values is None else HealthCheck(**values)
