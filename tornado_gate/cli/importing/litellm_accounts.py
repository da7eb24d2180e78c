"""LiteLLM's database: virtual keys by their hashes, and the teams and budgets that bind them.

Tables: ``schema.prisma`` of BerriAI/litellm, commit 029f645f, November 2026. A key is stored as the SHA-256 of its text in
hexadecimal (``hash_token`` in ``litellm/proxy/_types.py``), as this gateway stores it. The models of the database are encrypted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tornado_gate.cli.importing.bounds import convert_bound, find_period
from tornado_gate.cli.importing.builder import ConfBuilder
from tornado_gate.cli.importing.databases import Tables, read_database
from tornado_gate.cli.importing.texts import list_names, list_objects, make_name, parse_hash, read_json_object

_KEYS: Final = "LiteLLM_VerificationToken"
_TEAMS: Final = "LiteLLM_TeamTable"
_BUDGETS: Final = "LiteLLM_BudgetTable"
_USERS: Final = "LiteLLM_UserTable"
_MODELS: Final = "LiteLLM_ProxyModelTable"
_BOUNDS: Final = ("max_budget", "budget_duration", "tpm_limit", "rpm_limit", "max_parallel_requests")
COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    _KEYS: (
        *("token", "key_name", "key_alias", "expires", "models", "aliases", "config", "router_settings", "team_id"),
        *("permissions", "metadata", "blocked", *_BOUNDS, "allowed_routes", "policies", "access_group_ids"),
        *("model_max_budget", "budget_limits", "budget_id", "organization_id", "project_id", "object_permission_id"),
    ),
    _TEAMS: (
        *("team_id", "team_alias", "organization_id", "models", "blocked", "metadata", *_BOUNDS, "access_group_ids"),
        *("model_max_budget", "budget_limits", "model_id", "router_settings", "object_permission_id"),
    ),
    _BUDGETS: ("budget_id", *_BOUNDS, "model_max_budget"),
    _USERS: ("user_id", *_BOUNDS),
    _MODELS: ("model_id", "model_name"),
}
_DASHBOARD_TEAM: Final = "litellm-dashboard"
"""The team of the keys that LiteLLM makes for sessions of its console."""
_ALL: Final = frozenset({"*", "all-proxy-models", "all-team-models"})
_NONE: Final = frozenset({"no-default-models", "all-org-models"})
_ALL_ROUTES: Final = frozenset({"llm_api_routes", "openai_routes", "*", "/*"})
_LOST: Final = {
    "aliases": "keys have no aliases of models; add the alias under `models`",
    "config": "keys have no settings of requests; let the callers send them",
    "router_settings": "all keys have the same routing; set it for the models",
    "permissions": "guards are plugins here; see docs/how-to/guards.md",
    "policies": "guards are plugins here; see docs/how-to/guards.md",
    "model_max_budget": "there are no budgets for single models of a key; set `limits` of the model",
    "budget_limits": "there are no budgets for single models of a key; set `limits` of the model",
    "organization_id": "organisations have no budgets; give the teams budgets",
    "project_id": "teams are not divided into projects; make a team for each",
    "model_id": "teams have no aliases of models; add the alias under `models`",
}
_EMPTY: Final[tuple[Any, ...]] = (None, "", "{}", "[]", {}, [])
_METADATA_LOST: Final = ("guardrails", "model_rpm_limit", "model_tpm_limit", "logging", "disable_fallbacks")


def read_litellm_database(source: str | Path) -> Tables:
    """Return the tables of LiteLLM's database. Raises UnreadableSource."""
    return read_database(source, COLUMNS, needed=_KEYS, product="LiteLLM")


def add_accounts(builder: ConfBuilder, tables: Tables, groups: Mapping[str, Iterable[str]]) -> None:
    """Add the stored keys and their teams. `groups` are the models of each access group of the models."""
    _Reader(builder, tables, groups).read()


class _Reader:
    def __init__(self, builder: ConfBuilder, tables: Tables, groups: Mapping[str, Iterable[str]]) -> None:
        self._builder = builder
        self._report = builder.report
        self._tables = {name: tables.get(name, []) for name in COLUMNS}
        self._groups = groups
        self._budgets = {str(row.get("budget_id")): row for row in self._tables[_BUDGETS]}
        self._teams = {str(row.get("team_id")): row for row in self._tables[_TEAMS]}
        self._names: dict[str, str] = {}

    def read(self) -> None:
        for key in self._tables[_KEYS]:
            self._read_key(key)
        for model in self._tables[_MODELS]:
            text = "LiteLLM has encrypted the models of its database; add them under models, or export them to its config.yaml"
            self._report.lose(f"the model '{model.get('model_name')}' of the database", text)
        if any(row.get(name) is not None for row in self._tables[_USERS] for name in _BOUNDS):
            text = "people sign up in the console, where an administrator sets their limits and makes their keys theirs"
            self._report.lose("budgets and limits of users", text)

    def _read_key(self, key: dict[str, Any]) -> None:
        name = make_name(str(key.get("key_alias") or key.get("key_name") or ""), "key")
        where, team = f"the key '{name}'", self._teams.get(str(key.get("team_id")))
        if key.get("team_id") == _DASHBOARD_TEAM:
            self._report.note("keys of sessions of LiteLLM's console are left out")
            return
        if reason := _find_end(key, team):
            self._report.note(f"{where} is left out: {reason}")
            return
        digest = parse_hash(key.get("token"))
        fault = _find_obstacle(key)
        models = self._list_models(key)
        if digest is None or fault or models is None or (team is not None and self._list_models(team) is None):
            unhashed = "its hash is not a SHA-256 in hexadecimal" if digest is None else ""
            reason = fault or unhashed or "it allows no model, or models of a group that is not in conf"
            self._report.lose(where, f"{reason}; make another key with `tornado-gate keys create`")
            return
        self._report_losses(key, where)
        self._builder.add_stored_key(
            name,
            digest,
            prefix=str(key.get("key_name") or "").partition("...")[0][:10],
            expires=_parse_time(key.get("expires")),
            team=self._add_team(team),
            models=models,
            tags=[make_name(tag, "") for tag in list_names(read_json_object(key.get("metadata")).get("tags"))],
            **self._read_bounds(key, where),
        )

    def _add_team(self, team: dict[str, Any] | None) -> str:
        """Return the name of the stored team, which the first of its keys adds; "" without a team."""
        if team is None:
            return ""
        identity = str(team.get("team_id"))
        if identity not in self._names:
            alias = make_name(str(team.get("team_alias") or ""), identity)
            where = f"the team '{alias}'"
            self._report_losses(team, where)
            models = self._list_models(team)
            self._names[identity] = self._builder.add_stored_team(
                alias, models=models, **self._read_bounds(team, where)
            )
        return self._names[identity]

    def _list_models(self, owner: dict[str, Any]) -> list[str] | None:
        """Return the models of a key or team, with access groups as their models. [] for all, None for none."""
        models = list_names(owner.get("models"))
        if _NONE & set(models):
            return None
        if not models or _ALL & set(models):
            return []
        names = (name for model in models for name in self._groups.get(model, (model,)))
        return list(dict.fromkeys(names)) or None

    def _read_bounds(self, owner: dict[str, Any], where: str) -> dict[str, Any]:
        """Return `limits` and `budget`. A bound that the owner lacks comes from its shared budget."""
        shared = self._budgets.get(str(owner.get("budget_id")), {})
        row = {name: shared.get(name) if owner.get(name) is None else owner[name] for name in _BOUNDS}
        report = self._report
        limits = convert_bound("requests", row["rpm_limit"], "minute", f"{where}, rpm_limit", report)
        limits |= convert_bound("tokens", row["tpm_limit"], "minute", f"{where}, tpm_limit", report)
        limits |= convert_bound("concurrent", row["max_parallel_requests"], "", f"{where}, parallel requests", report)
        period = find_period(row["budget_duration"])
        budget = convert_bound("usd", row["max_budget"], period, f"{where}, max_budget", report)
        return {"limits": limits, "budget": budget}

    def _report_losses(self, owner: dict[str, Any], where: str) -> None:
        for name, text in _LOST.items():
            if owner.get(name) not in _EMPTY:
                self._report.lose(f"{where}, {name}", text)
        metadata = read_json_object(owner.get("metadata"))
        for name in _METADATA_LOST:
            if metadata.get(name):
                text = "this gateway has no such setting of keys and teams; see docs/reference/configuration.md"
                self._report.lose(f"{where}, metadata.{name}", text)


def list_access_groups(source: Any) -> dict[str, list[str]]:
    """Return the models of each access group that the model_list of a config.yaml states."""
    groups: dict[str, list[str]] = {}
    for item in list_objects(source.get("model_list") if isinstance(source, dict) else None):
        info = item.get("model_info")
        for group in list_names(info.get("access_groups") if isinstance(info, dict) else None):
            groups.setdefault(group, []).append(str(item.get("model_name")))
    return groups


def _find_end(key: dict[str, Any], team: dict[str, Any] | None) -> str:
    """Return why LiteLLM refuses a key now, or ""."""
    if key.get("blocked"):
        return "it is blocked"
    if team is not None and team.get("blocked"):
        return "its team is blocked"
    expires = _parse_time(key.get("expires"))
    return "it has expired" if expires is not None and expires <= datetime.now(UTC) else ""


def _find_obstacle(key: dict[str, Any]) -> str:
    """Return why the key would allow more here than in LiteLLM, or ""."""
    if set(list_names(key.get("allowed_routes"))) - _ALL_ROUTES:
        return "it is limited to some routes (allowed_routes)"
    if list_names(key.get("access_group_ids")) and not list_names(key.get("models")):
        return "its models are those of an access group of the database"
    return ""


def _parse_time(value: Any) -> datetime | None:
    """Return a time of the database, which is UTC."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if not isinstance(value, datetime):
        return None
    return value if value.tzinfo else value.replace(tzinfo=UTC)
