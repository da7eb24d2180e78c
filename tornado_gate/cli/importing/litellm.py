"""LiteLLM's config.yaml: models, deployments, router settings and the master key.

Formats: ``docs/my-website/docs/proxy/configs.md`` and ``proxy_server_config.yaml`` of BerriAI/litellm. The weights of
deployments are chosen as in ``router_strategy/simple_shuffle.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from tornado_gate.cli.importing.builder import ConfBuilder
from tornado_gate.cli.importing.databases import Tables
from tornado_gate.cli.importing.litellm_accounts import add_accounts, list_access_groups
from tornado_gate.cli.importing.litellm_deployments import DeploymentReader
from tornado_gate.cli.importing.texts import (
    get_object,
    list_names,
    list_objects,
    list_unread,
    make_reference,
    order_weights,
    parse_count,
    parse_number,
    quote_text,
    shorten_number,
)

_ENVIRONMENT: Final = re.compile(r"os\.environ/(.+)")
_STRATEGIES: Final = {
    "simple-shuffle": "weighted",
    "least-busy": "least_busy",
    "latency-based-routing": "latency",
    "cost-based-routing": "cost",
}
_DAY: Final = frozenset({"1d", "24h", "86400s"})
_MONTH: Final = frozenset({"30d", "1mo", "31d"})
_MOST_RETRIES: Final = 10
SHARE_WITHOUT_WEIGHT: Final = 1000

_ADVICE: Final = {
    "litellm_settings.callbacks": "logging services are plugins here; see the plugin otel",
    "litellm_settings.success_callback": "logging services are plugins here; see the plugin otel",
    "litellm_settings.failure_callback": "logging services are plugins here; see the plugin otel",
    "litellm_settings.context_window_fallbacks": "a fallback for long prompts only cannot be stated; use `fallback` of the model",
    "litellm_settings.content_policy_fallbacks": "a fallback for refused contents cannot be stated; use `fallback` of the model",
    "litellm_settings.default_team_settings": "teams have limits and budgets under `teams`; logging services are plugins",
    "general_settings.database_url": "keys and teams are in LiteLLM's database; name it too, with --database and --keys",
    "general_settings.store_model_in_db": "models in LiteLLM's database are encrypted; add them under `models`",
    "general_settings.alerting": "alerts come from the metrics at /metrics; set them up in your monitoring",
    "general_settings.pass_through_endpoints": "other addresses are not forwarded; call them directly, or write a plugin",
    "guardrails": "guards are plugins here; see the plugin redact and docs/how-to/guards.md",
    "router_settings.redis_host": "set limits: {store: redis://HOST:PORT/DB} so that several nodes count together",
    "router_settings.redis_url": "set limits: {store: redis://HOST:PORT/DB} so that several nodes count together",
}
_DEFAULT_ADVICE: Final = "this gateway has no such setting; see docs/reference/configuration.md"
_HARMLESS: Final = frozenset(
    {
        *("litellm_settings.drop_params", "litellm_settings.set_verbose", "litellm_settings.telemetry"),
        *("litellm_settings.json_logs", "litellm_settings.modify_params", "litellm_settings.suppress_debug_info"),
        *("router_settings.enable_pre_call_checks", "router_settings.redis_port", "router_settings.redis_password"),
        *("router_settings.set_verbose", "router_settings.routing_strategy_args", "router_settings.debug_level"),
        *("general_settings.proxy_batch_write_at", "general_settings.database_connection_pool_limit"),
        *("general_settings.proxy_budget_rescheduler_min_time", "general_settings.proxy_budget_rescheduler_max_time"),
        *("general_settings.database_connection_timeout", "general_settings.salt_key"),
    }
)
"""Settings that only tune LiteLLM itself, or whose effect this gateway has always."""


def read_litellm(source: Any, tables: Tables | None = None) -> ConfBuilder:
    """Return the configuration of a parsed config.yaml, with the keys and teams of the database if its `tables` are given.

    `source` is None if only the database is known.
    """
    importer = _Importer(source if isinstance(source, dict) else {})
    if tables is None:
        return importer.read()
    add_accounts(importer.builder, tables, list_access_groups(source))
    if source is None:
        text = "LiteLLM has its models in config.yaml; name that file, and the database with --database"
        importer.builder.report.lose("models", text)
        return importer.builder
    return importer.read(has_database=True)


class _Importer:
    def __init__(self, source: dict[str, Any]) -> None:
        self.builder = ConfBuilder()
        self._variables = get_object(source, "environment_variables")
        self._used: set[str] = set()
        self._source: dict[str, Any] = self._refer(source)
        self._settings = get_object(self._source, "litellm_settings")
        self._router = get_object(self._source, "router_settings")
        self._general = get_object(self._source, "general_settings")
        self._read: set[str] = set()

    def read(self, *, has_database: bool = False) -> ConfBuilder:
        if has_database:
            self._read |= {"general_settings.database_url"}
        if not list_objects(self._source.get("model_list")):
            self.builder.report.lose("model_list", "the file has no models; is it LiteLLM's config.yaml?")
        self._read_models()
        self._read_strategy()
        self._read_fallbacks()
        self._read_aliases()
        self._read_limits()
        self._read_cache()
        self._read_master_key()
        self._report_rest()
        self.builder.finish()
        return self.builder

    def _refer(self, value: Any, name: str = "") -> Any:
        """Return a value in which ``os.environ/NAME`` is ``${NAME}``, with the default that the file states for it."""
        if isinstance(value, dict):
            return {
                key: item if key == "environment_variables" else self._refer(item, str(key))
                for key, item in value.items()
            }
        if isinstance(value, list):
            return [self._refer(item, name) for item in value]
        if not isinstance(value, str):
            return value
        match = _ENVIRONMENT.fullmatch(value.strip())
        reference = make_reference(match[1]) if match else None
        if match is None or reference is None:
            return quote_text(value)
        self._used.add(match[1])
        default = self._variables.get(match[1])
        is_plain = isinstance(default, (str, int)) and "}" not in str(default)
        return f"{reference[:-1]}:-{default}}}" if is_plain else reference

    def _get(self, section: str, name: str) -> Any:
        """Return a setting and note that it is read."""
        self._read.add(f"{section}.{name}")
        return {"litellm_settings": self._settings, "router_settings": self._router, "general_settings": self._general}[
            section
        ].get(name)

    def _get_either(self, name: str) -> Any:
        """Return a setting that may stand in both sections; the router's has precedence."""
        router, module = self._get("router_settings", name), self._get("litellm_settings", name)
        return module if router is None else router

    # Models

    def _read_models(self) -> None:
        timeout = parse_number(self._get("router_settings", "timeout")) or parse_number(
            self._get("litellm_settings", "request_timeout")
        )
        reader = DeploymentReader(self.builder, list_objects(self._source.get("credential_list")), timeout)
        groups: dict[str, list[dict[str, Any]]] = {}
        for index, item in enumerate(list_objects(self._source.get("model_list"))):
            where = f"model_list.{index}"
            name = str(item.get("model_name") or get_object(item, "litellm_params").get("model") or "")
            deployment = reader.read(item, name, where)
            if deployment is not None:
                groups.setdefault(name, []).append({**deployment, "where": where})
        for name, deployments in groups.items():
            self._add_group(name, deployments)

    def _add_group(self, name: str, deployments: list[dict[str, Any]]) -> None:
        entry: dict[str, Any] = {}
        targets = [deployment["target"] for deployment in deployments]
        if len(targets) == 1:
            entry = dict(targets[0])
        else:
            weights = self._choose_weights(deployments)
            entry["targets"] = [{**target, "weight": weight} for target, weight in zip(targets, weights, strict=True)]
        for deployment in deployments:
            entry.update(deployment["facts"])
        self.builder.add_model(name, entry, deployments[0]["where"])

    def _choose_weights(self, deployments: list[dict[str, Any]]) -> list[int]:
        """Return the weights: from the first of weight, rpm and tpm that the first deployment has.

        Deployments with a lower `order` are tried first. Those without a weight get almost no requests unless others fail.
        """
        weights_of_all = [deployment["weights"] for deployment in deployments]
        kind = next((kind for kind in ("weight", "rpm", "tpm") if weights_of_all[0].get(kind) is not None), "")
        least = (
            min((values[kind] for values in weights_of_all if kind and values.get(kind)), default=1)
            / SHARE_WITHOUT_WEIGHT
        )
        weights = [values[kind] if kind and values.get(kind) is not None else least for values in weights_of_all]
        orders = [values.get("order") or 1 for values in weights_of_all]
        groups = [[index for index, order in enumerate(orders) if order == level] for level in sorted(set(orders))]
        scaled = order_weights([[weights[index] for index in group] for group in groups])
        if len(groups) > 1:
            self.builder.report.note(
                "`order` of deployments is stated by weights: targets are chosen at random by weight, and all others are "
                "tried if one fails"
            )
        by_index = {
            index: weight
            for group, own in zip(groups, scaled, strict=True)
            for index, weight in zip(group, own, strict=True)
        }
        return [by_index[index] for index in range(len(weights_of_all))]

    def _read_strategy(self) -> None:
        name = self._get("router_settings", "routing_strategy")
        if name is None:
            return
        strategy = _STRATEGIES.get(str(name))
        if strategy is None:
            text = "there is no such strategy, so targets are chosen by weight; set `strategy` of the models, such as least_busy"
            self.builder.report.lose(f"router_settings.routing_strategy {name}", text)
        elif strategy != "weighted":
            for entry in self.builder.models.values():
                if "targets" in entry:
                    entry["strategy"] = strategy

    # Fallbacks and aliases

    def _read_fallbacks(self) -> None:
        models = self.builder.models
        default = list_names(self._get_either("default_fallbacks"))
        for name, others in self._list_fallbacks(self._get_either("fallbacks")):
            if name == "*":
                default = [*others, *default]
            elif name in models:
                models[name]["fallback"] = [*models[name].get("fallback", []), *others]
            else:
                self.builder.report.lose(f"the fallbacks of '{name}'", "this model is not in conf; add it under models")
        for name, entry in models.items():
            if default and "fallback" not in entry:
                entry["fallback"] = [str(other) for other in default if other != name]

    def _list_fallbacks(self, value: Any) -> Iterator[tuple[str, list[str]]]:
        for item in list_objects(value):
            for name, others in item.items():
                names = [other for other in others if isinstance(other, str)] if isinstance(others, list) else []
                if not isinstance(others, list) or len(names) != len(others):
                    text = "a fallback with parameters of its own cannot be stated; make a model with them and name it"
                    self.builder.report.lose(f"the fallbacks of '{name}'", text)
                yield str(name), names

    def _read_aliases(self) -> None:
        for section in ("router_settings", "litellm_settings"):
            for name in ("model_group_alias", "model_alias_map"):
                aliases = self._get(section, name)
                for alias, target in (aliases if isinstance(aliases, dict) else {}).items():
                    model = target.get("model") if isinstance(target, dict) else target
                    self.builder.add_alias(str(alias), str(model), f"{section}.{name}.{alias}")

    # Limits, retries, keys

    def _read_limits(self) -> None:
        builder = self.builder
        retries = self._get_either("num_retries")
        if (count := parse_number(retries)) is not None and count >= 1:
            builder.retries["same_target"] = min(int(count), _MOST_RETRIES)
        fails = parse_number(self._get_either("allowed_fails"))
        if fails is not None and fails >= 0:
            builder.circuits["failures"] = int(fails) + 1
        cooldown = parse_number(self._get_either("cooldown_time"))
        if cooldown:
            builder.circuits["open_seconds"] = shorten_number(cooldown)
        gateway: dict[str, Any] = {}
        if (most := parse_count(self._get("general_settings", "global_max_parallel_requests"))) is not None:
            gateway["concurrent_requests"] = most
        budget = parse_number(self._get("litellm_settings", "max_budget"))
        period = self._get("litellm_settings", "budget_duration")
        if budget is not None:
            gateway |= self._convert_budget(budget, period, "litellm_settings.max_budget")
        if gateway:
            builder.limits["gateway"] = gateway
        size = parse_number(self._get("general_settings", "max_request_size_mb"))
        if size:
            builder.limits["body_bytes"] = int(size * 1024 * 1024)

    def _convert_budget(self, budget: float, period: Any, where: str) -> dict[str, Any]:
        if str(period) in _DAY:
            return {"usd_per_day": shorten_number(budget)}
        if str(period) in _MONTH:
            return {"usd_per_month": shorten_number(budget)}
        text = "budgets are for a UTC day or month; set usd_per_day or usd_per_month of limits.gateway"
        self.builder.report.lose(where, text)
        return {}

    def _read_cache(self) -> None:
        is_on, parameters = self._get("litellm_settings", "cache"), self._get("litellm_settings", "cache_params")
        if not is_on:
            return
        parameters = parameters if isinstance(parameters, dict) else {}
        kind = parameters.get("type", "redis")
        self.builder.plugins["cache"] = {"caches": {"chat": "all", "embeddings": "all"}}
        ttl = parse_number(parameters.get("ttl"))
        if ttl:
            self.builder.plugins["cache"]["keep_seconds"] = shorten_number(ttl)
        if kind != "local":
            text = (
                "the plugin cache keeps responses for equal requests only, in the memory of each process; its setting "
                "`store` shares them in Redis or Valkey"
            )
            self.builder.report.lose(f"litellm_settings.cache_params.type {kind}", text)

    def _read_master_key(self) -> None:
        key = self._get("general_settings", "master_key")
        if isinstance(key, str) and key:
            self.builder.add_key("master", key, role="administrator")
        else:
            self.builder.report.note(
                "LiteLLM has no master_key and serves everybody. This gateway makes a key at its first start, which callers need"
            )

    def _report_rest(self) -> None:
        sections = {
            "litellm_settings": self._settings,
            "router_settings": self._router,
            "general_settings": self._general,
        }
        for section, values in sections.items():
            for name in list_unread(values, ()):
                path = f"{section}.{name}"
                if path not in self._read and path not in _HARMLESS:
                    self.builder.report.lose(path, _ADVICE.get(path, _DEFAULT_ADVICE))
        known = {"model_list", "credential_list", "environment_variables", *sections}
        for name in list_unread(self._source, known):
            self.builder.report.lose(name, _ADVICE.get(name, _DEFAULT_ADVICE))
        for name in self._variables:
            if name not in self._used and not str(name).startswith("REDIS_"):
                text = "conf does not set environment variables; set it where the gateway is started"
                self.builder.report.lose(f"environment_variables.{name}", text)
