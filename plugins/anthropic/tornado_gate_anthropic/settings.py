"""The settings of a provider entry, and the model features that they override."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any, Literal

from marshmallow import Schema, ValidationError, fields

from tornado_gate import ProviderEntry
from tornado_gate.codec.fields import Boolean, Integer, String
from tornado_gate.config import load_settings
from tornado_gate.http.base_url import normalize_base_url
from tornado_gate.types.value import Value, replace
from tornado_gate.wire.anthropic_messages import DEFAULT_MAX_TOKENS, ModelFeatures, find_model_features
from tornado_gate_anthropic.address import COUNT_PATH, DEFAULT_BASE_URL, MESSAGES_PATH, VERSION_PATH

DEFAULT_VERSION = "2023-06-01"


def _check_header_value(value: str) -> None:
    if not value.isascii() or not value.isprintable() or not value:
        raise ValidationError("must be printable ASCII text, because it is sent as an HTTP header")


class AnthropicSettingsSchema(Schema):
    version = String(validate=_check_header_value)
    betas = fields.List(String())
    default_max_tokens = Integer(least=1)
    auth = String(choices=("x-api-key", "bearer"))
    thinking = String(choices=("budget", "adaptive"))
    sampling = String(choices=("all", "one", "none"))
    system_turns = Boolean()


class AnthropicSettings(Value, frozen=True, kw_only=True):
    """The settings of one upstream. None means that the model name decides."""

    version: str = DEFAULT_VERSION
    betas: tuple[str, ...] = ()
    default_max_tokens: int = DEFAULT_MAX_TOKENS
    auth: Literal["x-api-key", "bearer"] = "x-api-key"
    thinking: Literal["budget", "adaptive"] | None = None
    sampling: Literal["all", "one", "none"] | None = None
    system_turns: bool | None = None

    def allows(self, beta: str) -> bool:
        """Whether callers may use this ``anthropic-beta`` value."""
        return any(fnmatchcase(beta, pattern) for pattern in self.betas)

    def find_model_features(self, model: str) -> ModelFeatures:
        """The features of an upstream model: the configured ones, else those by its name."""
        own: dict[str, Any] = {
            name: value
            for name in ("thinking", "sampling", "system_turns")
            if (value := getattr(self, name)) is not None
        }
        return replace(find_model_features(model), **own)


def read_settings(entry: ProviderEntry) -> tuple[str, AnthropicSettings]:
    """The base URL and the settings of a configuration entry. Raises ConfigError."""
    loaded = load_settings(AnthropicSettingsSchema, entry.settings)
    loaded["betas"] = tuple(loaded.get("betas", ()))
    base_url = normalize_base_url(
        entry.base_url, VERSION_PATH, default=DEFAULT_BASE_URL, endpoints=(COUNT_PATH, MESSAGES_PATH)
    )
    return base_url, AnthropicSettings(**loaded)
