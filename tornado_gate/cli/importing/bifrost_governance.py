"""Governance of Bifrost: virtual keys become keys, teams teams, and customers users; budgets and rate limits their bounds."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from tornado_gate.cli.importing.bounds import convert_bound, find_period
from tornado_gate.cli.importing.builder import ConfBuilder
from tornado_gate.cli.importing.texts import list_names, list_objects, list_unread, make_name, parse_hash, parse_number

_BUDGET_OWNERS: Final = {"virtual_key": "virtual_key_id", "team": "team_id", "customer": "customer_id"}
_KEY_LIMITS: Final = ("requests_per_minute", "tokens_per_minute", "concurrent_requests")
_LOST: Final = {
    "routing_rules": "requests are not routed by expressions; give each rule a model with targets and fallbacks",
    "pricing_overrides": "state prices under `prices`",
    "business_units": "teams have no units above them; give the teams budgets",
    "roles": "roles are member and administrator; see docs/reference/roles.md",
    "auth_config": "administrators sign in to the console; see docs/how-to/accounts.md",
    "complexity_analyzer_config": "requests are not routed by complexity",
}


class GovernanceReader:
    """The reader of one ``governance``. `models` are the models and `entries` the provider entries, by Bifrost's provider."""

    def __init__(
        self,
        builder: ConfBuilder,
        governance: dict[str, Any],
        models: dict[str, list[str]],
        key_ids: dict[str, set[str]],
        entries: dict[str, list[str]],
    ) -> None:
        self._builder = builder
        self._report = builder.report
        self._governance = governance
        self._models = models
        self._key_ids = key_ids
        self._entries = entries
        self._budgets = list_objects(governance.get("budgets"))
        self._limits = {str(limit.get("id")): limit for limit in list_objects(governance.get("rate_limits"))}
        self._customers: dict[str, str] = {}
        self._teams: dict[str, tuple[str, str]] = {}

    def read(self, *, empty_is_all: bool) -> None:
        """Add the keys, teams and users. `empty_is_all`: an empty list of models or keys means all, as in version 1."""
        for customer in list_objects(self._governance.get("customers")):
            name = make_name(str(customer.get("name") or ""), str(customer.get("id")))
            self._customers[str(customer.get("id"))] = name
            self._builder.users[name] = self._read_group(customer, "customer", f"customers.{name}")
        for team in list_objects(self._governance.get("teams")):
            name = make_name(str(team.get("name") or ""), str(team.get("id")))
            self._teams[str(team.get("id"))] = (name, str(team.get("customer_id") or ""))
            self._builder.teams[name] = self._read_group(team, "team", f"teams.{name}")
        for key in list_objects(self._governance.get("virtual_keys")):
            self._read_key(key, empty_is_all=empty_is_all)
        self._read_model_configs()
        self._read_providers()
        for name in list_unread(self._governance, set(self._governance) - _LOST.keys()):
            self._report.lose(f"governance.{name}", _LOST[name])

    # Bounds

    def _read_group(self, group: dict[str, Any], kind: str, where: str) -> dict[str, Any]:
        bounds = self._read_bounds(group, kind, where)
        return {"limits": bounds} if bounds else {}

    def _read_bounds(self, owner: dict[str, Any], kind: str, where: str) -> dict[str, Any]:
        """Return the bounds of a key, a team, a customer or a provider: its budgets and its rate limit."""
        bounds: dict[str, Any] = {}
        for budget in self._list_budgets(owner, kind):
            period = find_period(budget.get("reset_duration"))
            bounds |= convert_bound("usd", budget.get("max_limit"), period, f"governance.{where}, budget", self._report)
        limit = self._limits.get(str(owner.get("rate_limit_id"))) or owner.get("rate_limit")
        if isinstance(limit, dict):
            for source, name in (("request", "requests"), ("token", "tokens")):
                period = find_period(limit.get(f"{source}_reset_duration"))
                amount = limit.get(f"{source}_max_limit")
                bounds |= convert_bound(name, amount, period, f"governance.{where}, rate limit", self._report)
        return bounds

    def _list_budgets(self, owner: dict[str, Any], kind: str) -> list[dict[str, Any]]:
        member = _BUDGET_OWNERS.get(kind)
        ids = {str(owner.get("budget_id")), *list_names(owner.get("budget_ids"))}
        own = [owner["budget"]] if isinstance(owner.get("budget"), dict) else list_objects(owner.get("budgets"))
        declared = [
            budget
            for budget in self._budgets
            if str(budget.get("id")) in ids or (member and owner.get("id") and budget.get(member) == owner["id"])
        ]
        return [*own, *declared]

    # Keys

    def _read_key(self, key: dict[str, Any], *, empty_is_all: bool) -> None:
        name = make_name(str(key.get("name") or ""), str(key.get("id") or "key"))
        where = f"virtual_keys.{name}"
        if key.get("is_active") is False or self._has_expired(key, where):
            self._report.note(f"governance.{where} is inactive or has expired, so it is left out")
            return
        value, digest = str(key.get("value") or ""), parse_hash(key.get("value_hash"))
        if not value and digest is None:
            text = "the source does not have its value, which Bifrost has made; copy it from there, or make a new key"
            self._report.lose(f"governance.{where}", text)
            return
        models = self._list_models(key, where, empty_is_all=empty_is_all)
        if models == []:
            text = "it allows no model (an empty list means none, unless the file has version 1), and here it would mean all"
            self._report.lose(f"governance.{where}", text)
            return
        team, customer = self._teams.get(str(key.get("team_id")), ("", ""))
        customer = customer or str(key.get("customer_id") or "")
        bounds = self._read_bounds(key, "virtual_key", where)
        limits = {bound: bounds.pop(bound) for bound in _KEY_LIMITS if bound in bounds}
        if value:
            self._builder.add_key(
                name, value, team=team, user=self._customers.get(customer), models=models, budget=bounds, **limits
            )
        elif digest is not None:
            team = self._add_stored_team(team)
            self._builder.add_stored_key(name, digest, team=team, models=models, budget=bounds, limits=limits)
            if customer:
                text = "a key of which only the hash is known has no user; give its team or itself the bounds of the customer"
                self._report.lose(f"governance.{where}, customer", text)
        self._report.note(
            "callers that send a virtual key in x-bf-vk must send it as Authorization: Bearer or x-api-key"
        )

    def _add_stored_team(self, name: str) -> str:
        """Add a team of conf to those of the database too, once."""
        if name and name not in self._builder.stored_teams:
            bounds = dict(self._builder.teams.get(name, {}).get("limits", {}))
            limits = {bound: bounds.pop(bound) for bound in _KEY_LIMITS if bound in bounds}
            self._builder.add_stored_team(name, budget=bounds, limits=limits)
        return name

    def _has_expired(self, key: dict[str, Any], where: str) -> bool:
        """Return whether a key has expired. Report an expiry in the future."""
        text = str(key.get("expires_at") or "")
        if not text:
            return False
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            moment = datetime.max.replace(tzinfo=UTC)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        if moment <= datetime.now(UTC):
            return True
        self._report.lose(
            f"governance.{where}.expires_at",
            "keys of conf do not expire; use `tornado-gate keys create --expires`, or remove the key then",
        )
        return False

    def _list_models(self, key: dict[str, Any], where: str, *, empty_is_all: bool) -> list[str] | None:
        """Return the models that a virtual key allows; None for all."""
        configs = list_objects(key.get("provider_configs"))
        if not configs:
            return None if empty_is_all else []
        allowed: list[str] = []
        for config in configs:
            provider = str(config.get("provider"))
            if provider not in self._models:
                self._report.lose(
                    f"governance.{where}, {provider}", "this provider was not carried; add it under providers"
                )
                continue
            self._check_provider_config(config, provider, where, empty_is_all=empty_is_all)
            names = list_names(config.get("allowed_models"))
            if "*" in names or (not names and empty_is_all):
                allowed += [f"{provider}/*", *self._models[provider]]
            else:
                allowed += [spelling for model in names for spelling in (f"{provider}/{model}", model)]
        if len({parse_number(config.get("weight")) for config in configs}) > 1:
            text = "targets have the same weights for all keys; set `weight` of the model's targets"
            self._report.lose(f"governance.{where}, weight", text)
        providers = {str(config.get("provider")) for config in configs}
        return [name for name in dict.fromkeys(allowed) if self._may_name(name, providers, where)]

    def _may_name(self, model: str, providers: set[str], where: str) -> bool:
        """Return whether a key of these providers may use a name. A name without a provider may be served by others too."""
        others = {name for name, models in self._models.items() if model in models} - providers
        if others:
            text = "other providers serve it too, which the key does not allow; name the model with its provider"
            self._report.lose(f"governance.{where}, {model}", text)
        return not others

    def _check_provider_config(self, config: dict[str, Any], provider: str, where: str, *, empty_is_all: bool) -> None:
        ids = set(list_names(config.get("key_ids")))
        if ids and "*" not in ids and not ids >= self._key_ids.get(provider, set()):
            text = "a key cannot be limited to some keys of a provider; make a provider and a model for them"
            self._report.lose(f"governance.{where}, key_ids of {provider}", text)
        if self._list_budgets(config, "") or config.get("rate_limit_id") or config.get("rate_limit"):
            text = "a key has no bounds for one provider; set them for the key, or for the provider"
            self._report.lose(f"governance.{where}, bounds of {provider}", text)

    # Models and providers

    def _read_model_configs(self) -> None:
        for config in list_objects(self._governance.get("model_configs")):
            name, provider = str(config.get("model_name")), str(config.get("provider") or "")
            where = f"model_configs.{name}"
            if config.get("scope", "global") != "global":
                self._report.lose(
                    f"governance.{where}", "a key has no bounds for one model; set them for the key or the model"
                )
                continue
            if name == "*" and provider:
                self._add_provider_bounds(provider, self._read_bounds(config, "", where), where)
                continue
            bounds = self._read_bounds(config, "", where)
            models = [f"{provider}/{name}"] if provider else [name, *(f"{other}/{name}" for other in self._models)]
            known_models = [model for model in models if model in self._builder.models]
            for model in known_models:
                self._builder.models[model].setdefault("limits", {}).update(bounds)
            if not known_models:
                self._report.lose(
                    f"governance.{where}", "this model is not in conf; set `limits` of the model that serves it"
                )
            elif len(known_models) > 1:
                self._report.note(
                    f"each of the models {', '.join(known_models)} has the bounds of governance.{where} for itself"
                )

    def _read_providers(self) -> None:
        for config in list_objects(self._governance.get("providers")):
            name = str(config.get("name"))
            self._add_provider_bounds(name, self._read_bounds(config, "", f"providers.{name}"), f"providers.{name}")

    def _add_provider_bounds(self, provider: str, bounds: dict[str, Any], where: str) -> None:
        entries = self._entries.get(provider, [])
        if bounds and not entries:
            self._report.lose(f"governance.{where}", "this provider was not carried; set `limits` of the provider")
        elif bounds and len(entries) > 1:
            text = "the provider has several entries here, so these bounds cannot be shared; set `limits` of each"
            self._report.lose(f"governance.{where}", text)
        elif bounds:
            self._builder.providers[entries[0]].setdefault("limits", {}).update(bounds)
