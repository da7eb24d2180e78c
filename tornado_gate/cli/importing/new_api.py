"""The database of new-api and one-api, or a JSON export of it: channels, tokens and users.

Formats: ``model/channel.go``, ``model/token.go`` and ``constant/channel.go`` of QuantumNous/new-api, November 2026;
``model/*.go`` and ``relay/channeltype`` of songquanpeng/one-api, commit 8df4a267. A token's text is stored without the
``sk-`` that callers send. 500,000 units of quota are one US dollar.
"""

from __future__ import annotations

import ipaddress
import time
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from tornado_gate.cli.importing.builder import ConfBuilder, make_target
from tornado_gate.cli.importing.databases import Tables, is_sqlite, read_database
from tornado_gate.cli.importing.files import read_json
from tornado_gate.cli.importing.texts import (
    list_objects,
    list_unread,
    make_name,
    order_weights,
    parse_number,
    quote_text,
    read_json_object,
    split_list,
)
from tornado_gate.cli.importing.vendors import VENDORS, SourceVendor, adapt_vendor, explain_unsupported

_SHARED_TYPES: Final = {
    **{1: "openai", 3: "azure-openai", 5: "compatible", 6: "compatible", 7: "compatible", 8: "compatible"},
    **{9: "compatible", 10: "compatible", 12: "compatible", 13: "compatible", 14: "anthropic", 16: "zhipu"},
    **{17: "dashscope-cn", 20: "openrouter", 22: "compatible", 24: "gemini", 25: "moonshot-cn", 31: "lingyi"},
}
_NEW_API_TYPES: Final = {
    **_SHARED_TYPES,
    **{4: "ollama", 26: "zhipu", 27: "perplexity", 35: "minimax", 40: "siliconflow", 42: "mistral", 43: "deepseek"},
    **{45: "volcengine", 47: "compatible", 48: "xai", 53: "compatible", 55: "openai"},
}
_ONE_API_TYPES: Final = {
    **_SHARED_TYPES,
    **{4: "compatible", 26: "baichuan", 27: "minimax", 28: "mistral", 29: "groq", 30: "ollama", 32: "stepfun"},
    **{36: "deepseek", 39: "together", 40: "volcengine", 41: "novita", 44: "siliconflow", 45: "xai"},
    **{49: "dashscope-cn", 50: "compatible", 51: "gemini"},
}
_TYPE_NAMES: Final = {
    2: "Midjourney",
    15: "baidu",
    18: "xunfei",
    23: "tencent",
    33: "bedrock",
    34: "cohere",
    41: "vertex",
}
_NEW_API_COLUMNS: Final = frozenset({"channel_info", "tag", "setting", "param_override", "auto_ban"})
COLUMNS: Final = {
    "channels": (
        *("id", "type", "key", "openai_organization", "status", "name", "weight", "base_url", "models", "group", "tag"),
        *("model_mapping", "status_code_mapping", "priority", "setting", "param_override", "header_override"),
        *("channel_info", "auto_ban", "system_prompt"),
    ),
    "tokens": (
        *("id", "user_id", "key", "status", "name", "expired_time", "remain_quota", "unlimited_quota", "group"),
        *("model_limits_enabled", "model_limits", "models", "allow_ips", "subnet", "deleted_at"),
    ),
    "users": ("id", "username", "status", "group", "deleted_at"),
}
_ENABLED: Final = 1
_CHANNEL_LOSSES: Final = {
    "param_override": "conf has no parameters that replace those of requests; let the callers send them",
    "header_override": "state the headers under `headers` of the provider",
    "status_code_mapping": "statuses cannot be replaced; callers get those of docs/reference/api.md",
    "system_prompt": "conf adds no system prompt; let the callers send it, or write a wrapper",
}


def read_new_api_tables(source: str | Path) -> Tables:
    """Return the rows of the tables. `source` is an address, an SQLite file, or JSON with the tables as members.

    The answer of an API, ``{"data": {"items": […]}}``, is a table of channels. Raises UnreadableSource.
    """
    if isinstance(source, str) or is_sqlite(source):
        return read_database(source, COLUMNS, needed="channels", product="new-api or one-api, such as one-api.db")
    value = read_json(source)
    for name in ("data", "items"):
        if isinstance(value, dict) and "channels" not in value and name in value:
            value = value[name]
    tables = {"channels": value} if isinstance(value, list) else value if isinstance(value, dict) else {}
    return {name: list_objects(tables.get(name)) for name in COLUMNS}


def read_new_api(source: Any) -> ConfBuilder:
    """Return the configuration of the tables ``channels``, ``tokens`` and ``users``, each a list of rows."""
    tables = source if isinstance(source, dict) else {}
    importer = _Importer({name: list_objects(tables.get(name)) for name in ("channels", "tokens", "users")})
    importer.read()
    return importer.builder


class _Importer:
    def __init__(self, tables: dict[str, list[dict[str, Any]]]) -> None:
        self.builder = ConfBuilder()
        self._report = self.builder.report
        self._tables = tables
        self._users = {str(user.get("id")): user for user in tables["users"]}
        columns = {name for channel in tables["channels"] for name in channel}
        self._has_weights = bool(columns & _NEW_API_COLUMNS)
        """one-api chooses a channel of the highest priority at random, and does not use its weight."""
        self._types = _NEW_API_TYPES if self._has_weights else _ONE_API_TYPES
        self._targets: dict[str, list[dict[str, Any]]] = {}
        self._groups: dict[str, set[str]] = {}

    def read(self) -> None:
        if not self._tables["channels"]:
            self._report.lose("channels", "there are none; is this the database of new-api or one-api?")
        for channel in self._tables["channels"]:
            self._read_channel(channel)
        for model, targets in self._targets.items():
            self._add_model(model, targets)
        for token in self._tables["tokens"]:
            self._read_token(token)
        self.builder.finish()

    # Channels

    def _read_channel(self, channel: dict[str, Any]) -> None:
        name = make_name(str(channel.get("name") or ""), f"channel-{channel.get('id')}")
        where = f"the channel '{name}'"
        if channel.get("status") not in (_ENABLED, None):
            self._report.note(f"{where} is disabled in the source, so it is left out")
            return
        number = int(parse_number(channel.get("type")) or 0)
        vendor = VENDORS.get(self._types.get(number, ""))
        if vendor is None:
            text = explain_unsupported(_TYPE_NAMES.get(number, ""))
            self._report.lose(f"{where} (type {number})", text)
            return
        vendor = adapt_vendor(vendor, str(channel.get("base_url") or ""))
        settings = self._read_settings(vendor, channel)
        if vendor.needs_address and "base_url" not in settings:
            self._report.lose(where, f"it states no base_url, which the vendor '{vendor.name}' needs; add the provider")
            return
        for column in list_unread(channel, set(channel) - _CHANNEL_LOSSES.keys()):
            if read_json_object(channel[column]) or column == "system_prompt":
                self._report.lose(f"{where}, {column}", _CHANNEL_LOSSES[column])
        provider = self.builder.add_provider(name, vendor, settings)
        self._add_targets(channel, provider)

    def _add_targets(self, channel: dict[str, Any], provider: str) -> None:
        mapping = read_json_object(channel.get("model_mapping"))
        weight = parse_number(channel.get("weight")) or 0 if self._has_weights else 1
        priority = int(parse_number(channel.get("priority")) or 0)
        for model in split_list(channel.get("models")):
            upstream = str(mapping.get(model) or model)
            target = make_target(provider, model, upstream)
            self._targets.setdefault(model, []).append({"target": target, "weight": weight, "priority": priority})
            self._groups.setdefault(model, set()).update(split_list(channel.get("group")) or ["default"])

    def _read_settings(self, vendor: SourceVendor, channel: dict[str, Any]) -> dict[str, Any]:
        settings: dict[str, Any] = {}
        address = str(channel.get("base_url") or "").strip()
        if address:
            settings["base_url"] = quote_text(_complete_address(vendor, address))
        keys = [quote_text(key) for key in split_list(channel.get("key"), "\n")]
        if len(keys) == 1:
            settings["api_key"] = keys[0]
        elif keys:
            settings["api_keys"] = keys
        organization = channel.get("openai_organization")
        if organization and vendor.plugin == "openai":
            settings["organization"] = quote_text(str(organization))
        return settings

    def _add_model(self, model: str, targets: list[dict[str, Any]]) -> None:
        """Add a model. Channels of a higher priority are tried first; in a priority the weights count."""
        entry: dict[str, Any] = dict(targets[0]["target"])
        if len(targets) > 1:
            levels = sorted({target["priority"] for target in targets}, reverse=True)
            groups = [[target for target in targets if target["priority"] == level] for level in levels]
            weights = order_weights([[target["weight"] for target in group] for group in groups])
            entry = {
                "targets": [
                    {**target["target"], "weight": weight}
                    for group, own in zip(groups, weights, strict=True)
                    for target, weight in zip(group, own, strict=True)
                ]
            }
            if len(groups) > 1:
                self._report.note(
                    "the order of priorities is stated by weights: targets are chosen at random by weight, and all others are "
                    "tried if one fails"
                )
        self.builder.add_model(model, entry, f"the model '{model}'")

    # Tokens

    def _read_token(self, token: dict[str, Any]) -> None:
        user = self._users.get(str(token.get("user_id")), {})
        name = make_name(str(token.get("name") or ""), f"token-{token.get('id')}")
        where, reason = f"the token '{name}'", _find_refusal(token, user)
        if reason:
            self._report.note(f"{where} is left out: {reason}")
            return
        key = str(token.get("key") or "").strip()
        if not key or "*" in key:
            self._report.lose(where, "the source does not have its text; make a key with `tornado-gate keys create`")
            return
        models = self._list_models(token, user)
        if models == []:
            self._report.lose(where, "no model is open to its group, and a key without models may use all")
            return
        if (parse_number(token.get("expired_time")) or -1) > 0:
            text = "keys of conf do not expire; use `tornado-gate keys create --expires`, or remove the key then"
            self._report.lose(f"{where}, expired_time", text)
        if not token.get("unlimited_quota"):
            text = "a quota for all time cannot be stated; set a budget, such as {usd_per_month: 5} (500,000 units are 1 USD)"
            self._report.lose(f"{where}, remain_quota", text)
        owner = make_name(str(user.get("username") or ""), "") or None
        self.builder.add_key(
            name,
            f"sk-{quote_text(key.removeprefix('sk-'))}",
            account=owner,
            user=owner,
            models=models,
            addresses=self._list_addresses(token, where),
        )

    def _list_models(self, token: dict[str, Any], user: dict[str, Any]) -> list[str] | None:
        """Return the models of a token: its own limits, and those of its group. None: all models."""
        limited = split_list(token.get("model_limits")) if token.get("model_limits_enabled") else []
        limited = limited or split_list(token.get("models"))
        group = str(token.get("group") or user.get("group") or "default")
        if group == "auto":
            group = str(user.get("group") or "default")
        open_models = [model for model, groups in self._groups.items() if group in groups]
        if len(open_models) == len(self._groups):
            return limited or None
        return [model for model in limited if model in open_models] if limited else open_models

    def _list_addresses(self, token: dict[str, Any], where: str) -> list[str]:
        addresses = split_list(token.get("allow_ips") or token.get("subnet"), "\n,")
        valid = [address for address in addresses if _is_network(address)]
        for address in addresses:
            if address not in valid:
                self._report.lose(
                    f"{where}, allow_ips", "an entry is not an address or a network; add it under `addresses`"
                )
        return valid


def _find_refusal(token: dict[str, Any], user: dict[str, Any]) -> str:
    """Return why the source refuses a token, or ""."""
    expiry = parse_number(token.get("expired_time")) or -1
    if token.get("deleted_at"):
        return "it is deleted"
    if token.get("status") not in (_ENABLED, None):
        return "it is disabled, expired or exhausted"
    if 0 < expiry < time.time():
        return "it has expired"
    if user.get("status") not in (_ENABLED, None) or user.get("deleted_at"):
        return "its user is disabled"
    return ""


def _complete_address(vendor: SourceVendor, address: str) -> str:
    """Return a channel's address with the path that the source adds for the vendor, unless it is the plugin's default."""
    usual = str(vendor.settings.get("base_url", ""))
    path = urlsplit(usual).path.rstrip("/")
    has_path = bool(urlsplit(address).path.strip("/"))
    return address if not usual or has_path or path == "/v1" else address.rstrip("/") + path


def _is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return True
