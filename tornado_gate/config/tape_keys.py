"""The keys of the section ``tapes``; `config/tapes.py` has their meaning and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from marshmallow import Schema, ValidationError

from tornado_gate.config.tapes import TapeRule, TapesConfig
from tornado_gate.config.values import Integer, List, Number, Seconds, Section, String

MOST_KEPT_SECONDS = 90 * 24 * 3600


def check_share(share: float) -> None:
    if not 0 < share <= 1:
        raise ValidationError("must be above 0 and at most 1: 0.01 records one of 100 requests")


class TapeRuleSchema(Schema):
    models = List(String(), least=1, hint="leave the key out for all models")
    keys = List(String(), least=1, hint="leave the key out for all keys")
    share = Number(least=0, validate=check_share)


class TapesSchema(Schema):
    rules = List(Section(TapeRuleSchema, example="{models: [gpt-*], share: 0.01}"))
    most = Integer(least=1, most=1000)
    tape_bytes = Integer(least=4096, most=64 * 1024 * 1024)
    total_bytes = Integer(least=4096)
    keep_seconds = Seconds(most=MOST_KEPT_SECONDS)


def build_tapes(values: Mapping[str, Any] | None) -> TapesConfig | None:
    """Return the section; None without one, so that nothing is recorded."""
    if values is None:
        return None
    return TapesConfig(**{**values, "rules": tuple(_build_rule(rule) for rule in values.get("rules", []))})


def _build_rule(rule: Mapping[str, Any]) -> TapeRule:
    globs = {name: tuple(rule.get(name, ())) for name in ("models", "keys")}
    return TapeRule(**globs, share=rule.get("share", TapeRule().share))
