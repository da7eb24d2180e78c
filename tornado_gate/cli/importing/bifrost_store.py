"""The tables of Bifrost's config store, in SQLite or PostgreSQL, as the values of its config.json.

Tables: ``framework/configstore/tables`` of maximhq/bifrost, November 2026. With an encryption key Bifrost encrypts the keys of
providers and of callers. A virtual key then has its SHA-256 in hexadecimal beside it (``value_hash``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from tornado_gate.cli.importing.databases import Tables, is_sqlite, read_database
from tornado_gate.cli.importing.files import read_json
from tornado_gate.cli.importing.texts import make_variable_name, read_json_object

_PROVIDERS: Final = "config_providers"
_PROVIDER_KEYS: Final = "config_keys"
_KEYS: Final = "governance_virtual_keys"
_KEY_PROVIDERS: Final = "governance_virtual_key_provider_configs"
_KEY_PROVIDER_KEYS: Final = "governance_virtual_key_provider_config_keys"
_BOUNDS: Final = {
    "budgets": "governance_budgets",
    "rate_limits": "governance_rate_limits",
    "teams": "governance_teams",
    "customers": "governance_customers",
    "model_configs": "governance_model_configs",
}
_OWNERS: Final = ("team_id", "virtual_key_id", "provider_config_id", "model_config_id", "customer_id")
COLUMNS: Final = {
    _PROVIDERS: (
        *("id", "name", "network_config_json", "concurrency_buffer_json", "proxy_config_json"),
        *("custom_provider_config_json", "budget_id", "rate_limit_id"),
    ),
    _PROVIDER_KEYS: (
        *("id", "name", "provider_id", "key_id", "value", "models_json", "weight", "enabled", "aliases_json"),
        *("azure_endpoint", "vllm_url", "ollama_url", "sgl_url", "encryption_status"),
    ),
    _KEYS: (
        *("id", "name", "value", "is_active", "team_id", "customer_id", "rate_limit_id", "encryption_status"),
        *("value_hash", "expires_at"),
    ),
    _KEY_PROVIDERS: ("id", "virtual_key_id", "provider", "weight", "allowed_models", "allow_all_keys", "rate_limit_id"),
    _KEY_PROVIDER_KEYS: ("table_virtual_key_provider_config_id", "table_key_id"),
    "governance_budgets": ("id", "max_limit", "reset_duration", *_OWNERS),
    "governance_rate_limits": (
        *("id", "token_max_limit", "token_reset_duration", "request_max_limit", "request_reset_duration"),
    ),
    "governance_teams": ("id", "name", "customer_id", "budget_id", "rate_limit_id"),
    "governance_customers": ("id", "name", "budget_id", "rate_limit_id"),
    "governance_model_configs": ("id", "model_name", "provider", "scope", "budget_id", "rate_limit_id"),
    "routing_rules": ("id", "name"),
}
_ADDRESSES: Final = {
    "azure_endpoint": ("azure_key_config", "endpoint"),
    "vllm_url": ("vllm_key_config", "url"),
    "ollama_url": ("ollama_key_config", "url"),
    "sgl_url": ("sgl_key_config", "url"),
}


def read_bifrost_source(source: str | Path) -> Any:
    """Return the values of a config.json, of an SQLite file or of the database at an address. Raises UnreadableSource."""
    if isinstance(source, Path) and not is_sqlite(source):
        return read_json(source)
    tables = read_database(source, COLUMNS, needed=_PROVIDERS, product="Bifrost, such as config.db")
    return build_config(tables)


def build_config(tables: Tables) -> dict[str, Any]:
    """Return the tables in the form of a config.json."""
    tables = {name: tables.get(name, []) for name in COLUMNS}
    governance: dict[str, Any] = {name: tables[table] for name, table in _BOUNDS.items()}
    governance["model_configs"] = [
        {**row, "budgets": _list_owned(tables, "model_config_id", row)} for row in tables["governance_model_configs"]
    ]
    governance["virtual_keys"] = [_build_virtual_key(key, tables) for key in tables[_KEYS]]
    governance["providers"] = [row for row in tables[_PROVIDERS] if row.get("budget_id") or row.get("rate_limit_id")]
    governance["routing_rules"] = tables["routing_rules"]
    providers = {str(row.get("name")): _build_provider(row, tables[_PROVIDER_KEYS]) for row in tables[_PROVIDERS]}
    return {"providers": providers, "governance": governance}


def _build_provider(row: dict[str, Any], keys: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return {
        "keys": [_build_key(key) for key in keys if key.get("provider_id") == row.get("id")],
        "network_config": read_json_object(row.get("network_config_json")),
        "concurrency_and_buffer_size": read_json_object(row.get("concurrency_buffer_json")),
        "proxy_config": row.get("proxy_config_json") and {"type": "set"},
        "custom_provider_config": read_json_object(row.get("custom_provider_config_json")),
    }


def _build_key(row: dict[str, Any]) -> dict[str, Any]:
    """Return a provider's key. A value that is encrypted, or is in a vault, becomes a reference to a variable."""
    is_unknown = row.get("encryption_status") == "encrypted"
    configs = {
        name: {member: _refer(row, "url") if is_unknown else row[column]}
        for column, (name, member) in _ADDRESSES.items()
        if row.get(column)
    }
    value = str(row.get("value") or "")
    if value and (is_unknown or value.startswith("vault.")):
        value = _refer(row, "api-key")
    return {
        "id": row.get("key_id"),
        "name": row.get("name"),
        "value": value,
        "models": _read_list(row.get("models_json")),
        "weight": 1 if row.get("weight") is None else row["weight"],
        "enabled": row.get("enabled") not in (False, 0),
        "aliases": read_json_object(row.get("aliases_json")),
        **configs,
    }


def _refer(row: dict[str, Any], end: str) -> str:
    return "env." + make_variable_name(f"{row.get('name')}-{end}")


def _build_virtual_key(row: dict[str, Any], tables: Tables) -> dict[str, Any]:
    """Return a virtual key. One that is encrypted has no `value`, and its hash in `value_hash`."""
    is_unknown = row.get("encryption_status") == "encrypted" or str(row.get("value") or "").startswith("vault.")
    configs = [
        _build_provider_config(config, tables)
        for config in tables[_KEY_PROVIDERS]
        if config.get("virtual_key_id") == row.get("id")
    ]
    return {
        **{name: row.get(name) for name in ("id", "name", "team_id", "customer_id", "rate_limit_id", "expires_at")},
        "value": "" if is_unknown else row.get("value"),
        "value_hash": row.get("value_hash"),
        "is_active": row.get("is_active") not in (False, 0),
        "provider_configs": configs,
    }


def _build_provider_config(row: dict[str, Any], tables: Tables) -> dict[str, Any]:
    ids = {key.get("id"): str(key.get("key_id")) for key in tables[_PROVIDER_KEYS]}
    identity = row.get("id")
    own = [
        ids.get(link.get("table_key_id"), "")
        for link in tables[_KEY_PROVIDER_KEYS]
        if link.get("table_virtual_key_provider_config_id") == identity
    ]
    return {
        "provider": row.get("provider"),
        "weight": row.get("weight"),
        "allowed_models": _read_list(row.get("allowed_models")),
        "key_ids": ["*"] if row.get("allow_all_keys") else own,
        "rate_limit_id": row.get("rate_limit_id"),
        "budgets": _list_owned(tables, "provider_config_id", row),
    }


def _list_owned(tables: Tables, column: str, owner: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the budgets of an owner, which a column of them names."""
    return [row for row in tables["governance_budgets"] if row.get(column) == owner.get("id")]


def _read_list(value: Any) -> list[Any]:
    """Return the list in a JSON text; [] for anything else."""
    try:
        value = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return []
    return value if isinstance(value, list) else []
