"""Configs of Portkey: nested targets with strategies, virtual keys, retries, timeouts and the cache.

Formats: ``src/middlewares/requestValidator/schema/config.ts``, ``src/types/requestBody.ts`` and ``conf.example.json`` of
Portkey-AI/gateway, commit 669825cb; lists of configs and virtual keys are those of Portkey's API,
``/configs`` and ``/virtual-keys``.

A config applies to every model that a request names. A file with one config becomes the model ``*``, of several configs each
becomes the model ``SLUG/*``, and also ``SLUG`` if all its targets state their model.
"""

from __future__ import annotations

from typing import Any, Final

from tornado_gate.cli.importing.bounds import convert_bound
from tornado_gate.cli.importing.builder import ConfBuilder
from tornado_gate.cli.importing.texts import (
    get_object,
    list_objects,
    list_unread,
    make_name,
    make_variable_name,
    order_weights,
    parse_count,
    parse_number,
    quote_text,
    read_json_object,
    scale_weights,
    shorten_number,
)
from tornado_gate.cli.importing.vendors import (
    SourceVendor,
    adapt_vendor,
    choose_address,
    explain_unsupported,
    find_vendor,
    guess_vendor,
)

_FALLBACK_STATUSES: Final = frozenset({429, 500, 502, 503, 504})
_READ: Final = frozenset(
    {
        *("strategy", "targets", "provider", "virtual_key", "api_key", "weight", "override_params", "retry", "cache"),
        *("request_timeout", "custom_host", "openai_organization", "openai_project", "resource_name", "deployment_id"),
        *("api_version", "azure_resource_name", "azure_deployment_id", "azure_api_version", "name", "on_status_codes"),
        *("strict_open_ai_compliance", "azure_model_name"),
    }
)
_ADVICE: Final = {
    "input_guardrails": "guards are plugins here; see the plugin redact and docs/how-to/guards.md",
    "output_guardrails": "guards are plugins here; see the plugin redact and docs/how-to/guards.md",
    "before_request_hooks": "guards are plugins here; see the plugin redact and docs/how-to/guards.md",
    "after_request_hooks": "guards are plugins here; see the plugin redact and docs/how-to/guards.md",
    "forward_headers": "headers of callers are not forwarded; state fixed ones under `headers` of the provider",
    "metadata": "requests are not marked by configs; give keys `tags`",
}
_DEFAULT_ADVICE: Final = "this gateway has no such setting; see docs/reference/configuration.md"
_INHERITED: Final = ("override_params", "request_timeout", "custom_host", "provider", "api_key", "virtual_key")
_MOST_DEPTH: Final = 20

Target = dict[str, Any]


def read_portkey(source: Any) -> ConfBuilder:
    """Return the configuration of a config, of a list of configs, or of a file with configs and virtual keys."""
    importer = _Importer(source)
    importer.read()
    return importer.builder


class _Importer:
    def __init__(self, source: Any) -> None:
        self.builder = ConfBuilder()
        self._report = self.builder.report
        self._configs, self._virtual_keys = _split_source(source)

    def read(self) -> None:
        if not self._configs and not self._virtual_keys:
            self._report.lose("the file", "it has no config with a provider, a virtual_key or targets")
        is_only = len(self._configs) == 1
        for slug, config in self._configs:
            self._read_config("" if is_only else slug, config)
        if not self._configs:
            for slug in self._virtual_keys:
                self._add_single(f"{slug}/*", {"virtual_key": slug}, f"virtual_keys.{slug}")
        self._report.note("API keys of Portkey are not in its configs: make keys with `tornado-gate keys create`")
        self.builder.finish()

    def _read_config(self, slug: str, config: dict[str, Any]) -> None:
        where = slug or "config"
        groups = self._read_node(config, where, {}, 0)
        targets = _flatten_groups(groups)
        if not targets:
            self._report.lose(where, "no target of this config could be carried, so it has no model here")
            return
        entry: dict[str, Any] = dict(targets[0]) if len(targets) == 1 else {"targets": targets}
        entry.pop("weight", None)
        if (attempts := parse_count(get_object(config, "retry").get("attempts"))) is not None:
            entry["retries"] = {"same_target": min(int(attempts), 10)}
            self._check_statuses(get_object(config, "retry"), f"{where}.retry")
        self._read_cache(config, where)
        self.builder.add_model(f"{slug}/*" if slug else "*", entry, where)
        if slug and all("model" in target for target in targets):
            self.builder.add_model(slug, entry, where)
        if len(groups) > 1:
            self._report.note(
                "the order of a fallback is stated by weights: targets are chosen at random by weight, and all others are tried "
                "if one fails"
            )

    def _add_single(self, name: str, node: dict[str, Any], where: str) -> None:
        target = self._read_target(node, where)
        if target is not None:
            self.builder.add_model(name, target, where)

    def _read_node(
        self, node: dict[str, Any], where: str, inherited: dict[str, Any], depth: int
    ) -> list[list[tuple[float, Target]]]:
        """Return the groups of targets with their weights, in the order in which the groups are tried."""
        inner = list_objects(node.get("targets"))
        own: dict[str, Any] = {name: node[name] for name in _INHERITED if name in node}
        inherited = {**inherited, **own}
        self._report_rest(node, where)
        if not inner or depth >= _MOST_DEPTH:
            target = self._read_target({**inherited, **node}, where)
            return [] if target is None else [[(1, target)]]
        mode = str(get_object(node, "strategy").get("mode") or node.get("mode") or "single")
        places = [f"{where}.targets.{index}" for index in range(len(inner))]
        children = [
            (child, self._read_node(child, place, inherited, depth + 1), place)
            for child, place in zip(self._choose_children(mode, node, inner, where), places, strict=False)
        ]
        if mode == "fallback":
            self._check_statuses(get_object(node, "strategy"), f"{where}.strategy")
            return [group for _, groups, _ in children for group in groups]
        return self._merge_balanced(children)

    def _choose_children(
        self, mode: str, node: dict[str, Any], inner: list[dict[str, Any]], where: str
    ) -> list[dict[str, Any]]:
        """Return the targets that a strategy uses."""
        if mode == "single":
            return inner[:1]
        if mode != "conditional":
            return inner
        text = (
            "requests are not routed by conditions, so only the default target is carried; give each condition a model"
        )
        self._report.lose(f"{where}.strategy.conditions", text)
        default = get_object(node, "strategy").get("default")
        return [child for child in inner if child.get("name") == default][:1] or inner[:1]

    def _merge_balanced(
        self, children: list[tuple[dict[str, Any], list[Any], str]]
    ) -> list[list[tuple[float, Target]]]:
        """Return one group for targets that share the requests by weight. Of a nested fallback only the first part is carried."""
        group: list[tuple[float, Target]] = []
        for child, groups, place in children:
            weight = parse_number(child.get("weight", 1))
            weight = 1 if weight is None else weight
            if len(groups) > 1:
                text = "a fallback inside of a load balance cannot be stated, so only its first target is carried"
                self._report.lose(place, text)
            total = sum(own for own, _ in groups[0]) if groups else 0
            group += [(weight * own / total, target) for own, target in (groups[0] if groups else []) if total]
        return [group] if group else []

    def _check_statuses(self, settings: dict[str, Any], where: str) -> None:
        statuses = settings.get("on_status_codes")
        if isinstance(statuses, list) and set(map(str, statuses)) != set(map(str, _FALLBACK_STATUSES)):
            text = "statuses cannot be chosen: after 429, 5xx and time-outs the next target is tried, after others not"
            self._report.lose(f"{where}.on_status_codes", text)

    # Targets and providers

    def _read_target(self, node: dict[str, Any], where: str) -> Target | None:
        vendor, slug, known = self._find_vendor(node)
        if vendor is None:
            named = str(node.get("provider") or node.get("virtual_key") or "")
            if not named:
                reason = "it names no provider and no virtual_key"
            elif slug:
                reason = "its vendor is unknown; add the virtual key to the file as {slug, provider}, or add the provider here"
            else:
                reason = explain_unsupported(named)
            self._report.lose(f"{where} ({named})" if named else where, reason)
            return None
        vendor = adapt_vendor(vendor, str(node.get("custom_host") or ""))
        settings = self._read_settings(vendor, node, slug, known, where)
        if vendor.needs_address and "base_url" not in settings:
            self._report.lose(where, f"it states no address, which the vendor '{vendor.name}' needs; add the provider")
            return None
        provider = self.builder.add_provider(slug or vendor.name, vendor, settings)
        parameters = get_object(node, "override_params")
        for name in parameters:
            if name != "model":
                text = "conf has no parameters that replace those of requests; let the callers send it"
                self._report.lose(f"{where}.override_params.{name}", text)
        model = parameters.get("model") or node.get("deployment_id") or node.get("azure_deployment_id")
        return {"provider": provider, "model": str(model)} if model else {"provider": provider}

    def _find_vendor(self, node: dict[str, Any]) -> tuple[SourceVendor | None, str, dict[str, Any]]:
        """Return the vendor, the slug of a virtual key ("" without one), and what the file says about that key."""
        provider = str(node.get("provider") or "")
        slug = str(node.get("virtual_key") or "") or (provider[1:] if provider.startswith("@") else "")
        known = self._virtual_keys.get(slug, {})
        named = known.get("provider") or known.get("ai_provider_name") or known.get("ai_provider_id")
        if named:
            return find_vendor(str(named).replace(" ", "-")), slug, known
        if not slug or (provider and not provider.startswith("@")):
            return find_vendor(provider), slug, known
        vendor = guess_vendor(slug)
        if vendor is not None:
            self._report.note(f"the vendor of the virtual key '{slug}' is taken from its name: {vendor.name}")
        return vendor, slug, known

    def _read_settings(
        self, vendor: SourceVendor, node: dict[str, Any], slug: str, known: dict[str, Any], where: str
    ) -> dict[str, Any]:
        settings: dict[str, Any] = {}
        resource = node.get("resource_name") or node.get("azure_resource_name") or known.get("resourceName")
        if node.get("custom_host"):
            settings |= choose_address(vendor, quote_text(str(node["custom_host"])))
        elif resource and vendor.name == "azure-openai":
            settings["base_url"] = f"https://{resource}.openai.azure.com"
        key = node.get("api_key") or get_object(known, "credentials").get("apiKey") or known.get("key")
        if key:
            settings["api_key"] = quote_text(str(key))
        elif slug:
            settings["api_key"] = f"${{{make_variable_name(slug)}_API_KEY}}"
        elif vendor.variable:
            settings["api_key"] = f"${{{vendor.variable}}}"
        for name in ("organization", "project"):
            if vendor.plugin == "openai" and node.get(f"openai_{name}"):
                settings[name] = quote_text(str(node[f"openai_{name}"]))
        if milliseconds := parse_number(node.get("request_timeout")):
            seconds = shorten_number(milliseconds / 1000)
            settings["timeouts"] = {"first_event": seconds, "whole": seconds}
        if limits := self._read_limits(known, f"virtual_keys.{slug}"):
            settings["limits"] = limits
        return settings

    def _read_limits(self, known: dict[str, Any], where: str) -> dict[str, Any]:
        limits: dict[str, Any] = {}
        units = {"rpm": "minute", "rpd": "day", "rph": "hour"}
        for limit in list_objects(known.get("rate_limits")):
            kind = str(limit.get("type"))
            period = units.get(str(limit.get("unit")), "")
            limits |= convert_bound(kind, limit.get("value"), period, f"{where}.rate_limits", self._report)
        usage = get_object(known, "usage_limits")
        if usage.get("credit_limit") is not None:
            period = {"monthly": "month"}.get(str(usage.get("periodic_reset")), "")
            limits |= convert_bound("usd", usage["credit_limit"], period, f"{where}.usage_limits", self._report)
        return limits

    def _read_cache(self, config: dict[str, Any], where: str) -> None:
        cache = config.get("cache")
        mode = cache.get("mode") if isinstance(cache, dict) else cache
        if not mode:
            return
        if mode != "simple":
            text = "there is no cache for similar requests; the plugin cache serves equal requests"
            self._report.lose(f"{where}.cache.mode {mode}", text)
            return
        settings: dict[str, Any] = {"caches": {"chat": "all", "embeddings": "all"}}
        if isinstance(cache, dict) and (seconds := parse_number(cache.get("max_age"))):
            settings["keep_seconds"] = shorten_number(seconds)
        if self.builder.plugins.setdefault("cache", settings) != settings:
            self._report.lose(
                f"{where}.cache", "all models have one cache with one lifetime; set plugins.cache.keep_seconds"
            )

    def _report_rest(self, node: dict[str, Any], where: str) -> None:
        for name in list_unread(node, _READ):
            self._report.lose(f"{where}.{name}", _ADVICE.get(name, _DEFAULT_ADVICE))


def _flatten_groups(groups: list[list[tuple[float, Target]]]) -> list[Target]:
    """Return the targets of all groups with weights by which the groups are tried in order."""
    groups = [group for group in groups if group]
    if not groups:
        return []
    weights = order_weights([scale_weights([weight for weight, _ in group]) for group in groups])
    return [
        {**target, "weight": weight}
        for group, own in zip(groups, weights, strict=True)
        for (_, target), weight in zip(group, own, strict=True)
    ]


def _split_source(source: Any) -> tuple[list[tuple[str, dict[str, Any]]], dict[str, dict[str, Any]]]:
    """Return the configs with their slugs, and the virtual keys by slug."""
    named = {"configs": source} if isinstance(source, list) else source if isinstance(source, dict) else {}
    if not any(name in named for name in ("configs", "virtual_keys", "integrations", "data")):
        return [("config", named)] if named else [], {}
    items = [
        item for name in ("configs", "virtual_keys", "integrations", "data") for item in _list_items(named.get(name))
    ]
    configs, virtual_keys = [], {}
    for index, item in enumerate(items):
        slug = str(item.get("slug") or item.get("id") or item.get("name") or f"config-{index + 1}")
        config = read_json_object(item["config"]) if "config" in item else item
        if "config" in item or "targets" in item or "strategy" in item or ("slug" not in item and "provider" in item):
            configs.append((make_name(slug, "config").replace("*", "-"), config))
        else:
            virtual_keys[slug] = item
    return configs, virtual_keys


def _list_items(value: Any) -> list[dict[str, Any]]:
    """Return the objects of a list, or of a mapping of names to objects."""
    if isinstance(value, dict):
        return [{"name": name, "slug": name, **item} for name, item in value.items() if isinstance(item, dict)]
    return list_objects(value)
