"""One deployment of LiteLLM's model_list: its provider entry, its target, its weights and the facts about its model."""

from __future__ import annotations

from typing import Any, Final

from tornado_gate.cli.importing.builder import ConfBuilder, make_target
from tornado_gate.cli.importing.texts import get_object, list_unread, parse_count, parse_number, shorten_number
from tornado_gate.cli.importing.vendors import (
    VENDORS,
    SourceVendor,
    adapt_vendor,
    choose_address,
    explain_unsupported,
    find_vendor,
    make_provider_name,
)

_KNOWN_STARTS: Final = {
    "openai": (
        "gpt-",
        "chatgpt-",
        "o1",
        "o3",
        "o4",
        "text-embedding-",
        "dall-e",
        "whisper-",
        "tts-",
        "omni-moderation",
    ),
    "anthropic": ("claude-",),
    "deepseek": ("deepseek-",),
    "mistral": ("mistral-", "open-mistral", "codestral"),
}
"""The names that LiteLLM takes for a vendor's without a prefix."""

_READ: Final = frozenset(
    {
        *(
            "model",
            "api_base",
            "base_url",
            "api_key",
            "rpm",
            "tpm",
            "weight",
            "order",
            "timeout",
            "stream_timeout",
            "organization",
        ),
        *("extra_headers", "headers", "max_parallel_requests", "max_budget", "budget_duration", "custom_llm_provider"),
        *("input_cost_per_token", "output_cost_per_token", "cache_read_input_token_cost", "litellm_credential_name"),
        *(
            "api_version",
            "drop_params",
            "use_in_pass_through",
            "use_litellm_proxy",
            "merge_reasoning_content_in_choices",
        ),
    }
)
_ADVICE: Final = {
    "tags": "requests are not routed by tags; give each tag a model of its own",
    "region_name": "requests are not routed by region; give each region a model of its own",
    "num_retries": "set `retries: {same_target: N}` of the model",
    "max_retries": "set `retries: {same_target: N}` of the model",
    "azure_ad_token": "no plugin signs in with Azure AD tokens; use an API key of the resource",
    "mock_response": "responses are not made up; use the plugin local for tests",
}
_DEFAULT_ADVICE: Final = "conf has no default parameters of requests; let the callers send it"
_INFO_READ: Final = frozenset(
    {
        "input_cost_per_token",
        "output_cost_per_token",
        "cache_read_input_token_cost",
        "max_input_tokens",
        "max_output_tokens",
    }
)
_INFO_LOST: Final = {
    "access_groups": "keys name models, as globs; list the models in `models` of each key",
    "supported_environments": "each environment has its own conf; remove the model where it shall not be served",
    "team_id": "models belong to no team; limit the keys of other teams by `models`",
}
_PRICES: Final = {
    "input_cost_per_token": "input",
    "output_cost_per_token": "output",
    "cache_read_input_token_cost": "cached_input",
}


class DeploymentReader:
    """The reader of deployments. `timeout_seconds` applies to those without a timeout."""

    def __init__(self, builder: ConfBuilder, credentials: list[dict[str, Any]], timeout_seconds: float | None) -> None:
        self._builder = builder
        self._timeout_seconds = timeout_seconds
        self._credentials = {
            str(item.get("credential_name")): get_object(item, "credential_values") for item in credentials
        }

    def read(self, item: dict[str, Any], name: str, where: str) -> dict[str, Any] | None:
        """Return the target, weights and facts of a deployment; None if no plugin serves it."""
        parameters = get_object(item, "litellm_params")
        credential = parameters.get("litellm_credential_name")
        parameters = {**self._credentials.get(str(credential), {}), **parameters}
        vendor, upstream = self._find_vendor(parameters, where)
        if vendor is None:
            return None
        address = str(parameters.get("api_base") or parameters.get("base_url") or "")
        vendor = adapt_vendor(vendor, address)
        settings = self._read_settings(vendor, parameters, where)
        if vendor.needs_address and "base_url" not in settings:
            self._builder.report.lose(
                where, f"it states no api_base, which the vendor '{vendor.name}' needs; add the provider"
            )
            return None
        provider = self._builder.add_provider(
            make_provider_name(vendor, address), vendor, settings, is_shared="limits" not in settings
        )
        info = get_object(item, "model_info")
        self._read_prices(upstream, parameters, info)
        self._report_rest(parameters, info, where)
        return {
            "target": make_target(provider, name, upstream),
            "weights": {kind: parse_number(parameters.get(kind)) for kind in ("weight", "rpm", "tpm", "order")},
            "facts": self._read_facts(info),
        }

    def _find_vendor(self, parameters: dict[str, Any], where: str) -> tuple[SourceVendor | None, str]:
        """Return the vendor of a deployment and the upstream's model name. Report a vendor that no plugin serves."""
        model = str(parameters.get("model") or "")
        named = parameters.get("custom_llm_provider")
        prefix, slash, rest = model.partition("/")
        if named:
            vendor, prefix, rest = find_vendor(str(named)), str(named), model.removeprefix(f"{named}/")
        elif slash and find_vendor(prefix) is not None:
            vendor = find_vendor(prefix)
        else:
            starts = ((VENDORS[name], start) for name, known in _KNOWN_STARTS.items() for start in known)
            vendor = next((known for known, start in starts if model.startswith(start)), None)
            prefix, rest = (prefix, rest) if vendor is None and slash else ("", model)
        if vendor is not None:
            return vendor, rest
        if model == "*":
            reason = "LiteLLM finds the vendor in each request; add a wildcard for each vendor, such as openai/*"
        else:
            reason = explain_unsupported(prefix or model)
        self._builder.report.lose(f"{where} ({model})", reason)
        return None, rest

    def _read_settings(self, vendor: SourceVendor, parameters: dict[str, Any], where: str) -> dict[str, Any]:
        settings: dict[str, Any] = {}
        address = parameters.get("api_base") or parameters.get("base_url")
        if address:
            settings |= choose_address(vendor, str(address))
        key = parameters.get("api_key")
        if key is None and vendor.variable:
            key = f"${{{vendor.variable}}}"
        if key and str(key).lower() not in ("none", "null", "empty"):
            settings["api_key"] = str(key)
        headers = parameters.get("extra_headers") or parameters.get("headers")
        if isinstance(headers, dict):
            settings["headers"] = {str(name).replace(" ", "-"): str(value) for name, value in headers.items()}
        organization = parameters.get("organization")
        if isinstance(organization, str) and vendor.plugin == "openai":
            settings["organization"] = organization
        elif organization:
            self._builder.report.lose(
                f"{where}.organization", "one provider has one organization; add a provider for each"
            )
        if limits := self._read_limits(parameters, where):
            settings["limits"] = limits
        if timeouts := self._read_timeouts(parameters):
            settings["timeouts"] = timeouts
        return settings

    def _read_limits(self, parameters: dict[str, Any], where: str) -> dict[str, Any]:
        names = {
            "rpm": "requests_per_minute",
            "tpm": "tokens_per_minute",
            "max_parallel_requests": "concurrent_requests",
        }
        limits: dict[str, Any] = {
            name: count for short, name in names.items() if (count := parse_count(parameters.get(short))) is not None
        }
        if (budget := parse_number(parameters.get("max_budget"))) is not None:
            period = {"1d": "usd_per_day", "24h": "usd_per_day", "30d": "usd_per_month", "1mo": "usd_per_month"}.get(
                str(parameters.get("budget_duration"))
            )
            if period is None:
                self._builder.report.lose(
                    f"{where}.max_budget", "budgets are for a UTC day or month; set limits of the provider"
                )
            else:
                limits[period] = shorten_number(budget)
        return limits

    def _read_timeouts(self, parameters: dict[str, Any]) -> dict[str, Any]:
        total = parse_number(parameters.get("timeout")) or self._timeout_seconds
        first = parse_number(parameters.get("stream_timeout"))
        timeouts: dict[str, Any] = {}
        if total:
            timeouts |= {"total": shorten_number(total), "whole": shorten_number(total)}
        if first:
            timeouts["first_event"] = shorten_number(first)
        return timeouts

    def _read_prices(self, upstream: str, parameters: dict[str, Any], info: dict[str, Any]) -> None:
        """Add the prices of a deployment, per million tokens."""
        prices = {}
        for source, name in _PRICES.items():
            price = parse_number(parameters.get(source, info.get(source)))
            if price is not None and 0 <= price <= 1:
                prices[name] = shorten_number(round(price * 1_000_000, 9))
        if prices and upstream:
            self._builder.prices.setdefault(upstream, prices)

    def _read_facts(self, info: dict[str, Any]) -> dict[str, Any]:
        names = {"max_input_tokens": "input_token_limit", "max_output_tokens": "output_token_limit"}
        return {name: count for source, name in names.items() if (count := parse_count(info.get(source))) is not None}

    def _report_rest(self, parameters: dict[str, Any], info: dict[str, Any], where: str) -> None:
        for name in list_unread(parameters, _READ):
            self._builder.report.lose(f"{where}.litellm_params.{name}", _ADVICE.get(name, _DEFAULT_ADVICE))
        for name in list_unread(info, _INFO_READ):
            if name in _INFO_LOST:
                self._builder.report.lose(f"{where}.model_info.{name}", _INFO_LOST[name])
