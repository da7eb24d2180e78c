"""The form of a model: its targets, fallback, strategy and limits, and the entry of conf that they make."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tornado_gate.accounts.errors import AccountError
from tornado_gate.config.routing_keys import STRATEGIES
from tornado_gate.server.console.forms import Form
from tornado_gate.server.console.key_form import AMOUNTS, FIELDS, LIMITS, TOKEN_BUDGETS, parse_form
from tornado_gate.server.console.languages.catalogues import translate
from tornado_gate.types.value import Value

BOUNDS: Final = (*LIMITS, *AMOUNTS, *TOKEN_BUDGETS)
TEXTS: Final = ("name", "fallback", "strategy", *BOUNDS)
MEMBERS: Final = ("provider", "model", "targets", "fallback", "strategy", "limits")
"""The members of an entry that the form changes; all others stay as they are."""
MAX_ROWS: Final = 100
_EMPTY_ROWS: Final = 2
_WEIGHT: Final = re.compile(r"[0-9]{1,7}")


class TargetRow(Value, frozen=True, kw_only=True):
    """A row of the form, as texts."""

    provider: str = ""
    model: str = ""
    weight: str = ""


def fill_model_form(name: str, entry: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts of the form for an entry as it is written in conf."""
    fallback, limits = entry.get("fallback"), entry.get("limits")
    bounds = limits if isinstance(limits, Mapping) else {}
    return {
        "name": name,
        "fallback": " ".join(map(str, fallback)) if isinstance(fallback, list) else "",
        "strategy": str(entry.get("strategy") or STRATEGIES[0]),
        **{bound: "" if bounds.get(bound) is None else str(bounds[bound]) for bound in BOUNDS},
    }


def list_target_rows(entry: Mapping[str, Any]) -> list[TargetRow]:
    """Return the targets of an entry as it is written in conf."""
    targets = entry.get("targets")
    written = targets if isinstance(targets, list) else [entry] if entry.get("provider") else []
    return [_make_row(target) for target in written if isinstance(target, Mapping)]


def _make_row(target: Mapping[str, Any]) -> TargetRow:
    weight = target.get("weight")
    return TargetRow(
        provider=str(target.get("provider") or ""),
        model=str(target.get("model") or ""),
        weight="" if weight is None else str(weight),
    )


def read_target_rows(providers: Sequence[str], models: Sequence[str], weights: Sequence[str]) -> list[TargetRow]:
    """Return the rows of a form that was sent, without those that have no provider."""
    rows = zip(providers[:MAX_ROWS], models, weights, strict=False)
    return [
        TargetRow(provider=provider, model=model.strip(), weight=weight.strip())
        for provider, model, weight in rows
        if provider
    ]


def add_empty_rows(rows: Sequence[TargetRow]) -> list[TargetRow]:
    """Return rows with empty ones below, in which further targets are written."""
    return [*rows, *(TargetRow() for _ in range(_EMPTY_ROWS))]


def parse_model_form(form: Form, rows: Sequence[TargetRow]) -> dict[str, Any]:
    """Return the members that the form asks for; None for those that the entry shall not have. Faults are noted in the form."""
    if not rows:
        form.errors["targets"] = translate("Choose a provider for one target at least.")
    if any(row.weight and not _WEIGHT.fullmatch(row.weight) for row in rows):
        form.errors["targets"] = translate("A weight is a whole number from 0 to 1,000,000.")
    try:
        parsed = parse_form({**dict.fromkeys(FIELDS, ""), **{name: form.values[name] for name in BOUNDS}})
    except AccountError as error:
        form.add(error, form.values)
    if form.has_errors:
        return {}
    strategy = form.values["strategy"]
    return {
        **_make_targets(rows),
        "fallback": form.values["fallback"].split() or None,
        "strategy": strategy if strategy in STRATEGIES[1:] else None,
        "limits": {**parsed["limits"], **parsed["budget"]} or None,
    }


def _make_targets(rows: Sequence[TargetRow]) -> dict[str, Any]:
    targets = [
        {"provider": row.provider}
        | ({"model": row.model} if row.model else {})
        | ({"weight": int(row.weight)} if row.weight and len(rows) > 1 else {})
        for row in rows
    ]
    if len(targets) == 1:
        return {"provider": targets[0]["provider"], "model": targets[0].get("model"), "targets": None}
    return {"provider": None, "model": None, "targets": targets}


def find_changes(entry: Mapping[str, Any], members: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members that differ from an entry as it is written in conf."""
    return {name: value for name, value in members.items() if entry.get(name) != value}
