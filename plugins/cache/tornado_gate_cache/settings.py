"""The settings of the plugin's entry in conf."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from marshmallow import Schema, ValidationError, fields, validate

from tornado_gate.codec.fields import Integer, Number, String
from tornado_gate.codec.valkey_addresses import is_valkey_address
from tornado_gate.config import load_settings
from tornado_gate.types.value import Value, field

CacheRule = Literal["all", "deterministic"]
"""The cached requests of an operation: all, or requests with temperature 0."""

OPERATIONS: Final = ("chat", "count_tokens", "embeddings", "images", "moderation", "speech")
DEFAULT_RULES: Final[Mapping[str, CacheRule]] = {"embeddings": "all", "moderation": "all", "chat": "deterministic"}


def check_store(address: str) -> None:
    """Check the address of a Redis or Valkey. The message does not show it: it may have a password."""
    if address and not is_valkey_address(address):
        raise ValidationError(
            "must be an address such as redis://host:6379/1 or valkey://host:6379; leave it out to keep answers in memory"
        )


class CacheSettingsSchema(Schema):
    """The keys of the entry; `caches` maps operations to rules."""

    caches = fields.Dict(
        keys=String(validate=validate.OneOf(OPERATIONS)),
        values=String(validate=validate.OneOf(("all", "deterministic"))),
    )
    store = String(validate=check_store)
    scope = String(validate=validate.OneOf(("account", "key")))
    keep_seconds = Number(validate=validate.Range(min=1))
    max_bytes = Integer(validate=validate.Range(min=1024))
    max_entries = Integer(validate=validate.Range(min=1))
    answer_bytes = Integer(validate=validate.Range(min=1))


class CacheSettings(Value, frozen=True, kw_only=True):
    """The settings. `keep_seconds` is the lifetime of a response. `answer_bytes` limits a stored response.

    `max_bytes` and `max_entries` limit the responses of all accounts together. `scope` is the group that shares
    responses: the keys of an account, or only the key itself. `store` is the address of a Redis or Valkey that several nodes
    share; "" for the memory of each process. In a store, only `keep_seconds` and `answer_bytes` limit the responses, and
    `max_bytes` limits the memory of those that are being written.
    """

    caches: Mapping[str, CacheRule] = field(default_factory=lambda: dict(DEFAULT_RULES))
    store: str = ""
    scope: Literal["account", "key"] = "account"
    keep_seconds: float = 3600.0
    max_bytes: int = 64 * 1024 * 1024
    max_entries: int = 10_000
    answer_bytes: int = 1024 * 1024


def read_settings(settings: Mapping[str, Any]) -> CacheSettings:
    """Check the settings of conf. Raises ConfigError."""
    return CacheSettings(**load_settings(CacheSettingsSchema, settings))
