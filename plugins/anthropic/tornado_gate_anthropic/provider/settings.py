"""The settings of a provider entry, and the facts about models that they refine."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Final, Literal

from marshmallow import Schema, ValidationError, fields

from tornado_gate import ProviderEntry
from tornado_gate.codec.fields import Boolean, Integer, String
from tornado_gate.config import load_settings
from tornado_gate.http.base_url import normalize_base_url
from tornado_gate.types.value import Value, field
from tornado_gate.wire.model_table import RULES_KEY, ModelTable, build_table
from tornado_gate_anthropic.provider.address import COUNT_PATH, DEFAULT_BASE_URL, MESSAGES_PATH, VERSION_PATH
from tornado_gate_anthropic.wire.messages import ModelFeatures

DEFAULT_VERSION = "2023-06-01"
_FACTS_OF_ENTRY = ("thinking", "sampling", "system_turns")
"""Settings that are facts about all models of an entry."""


def _check_header_value(value: str) -> None:
    if not value.isascii() or not value.isprintable() or not value:
        raise ValidationError("must be printable ASCII text, because it is sent as an HTTP header")


THREADS_BETA: Final = "message-threads"
"""Prefix of the beta that the field ``thread`` belongs to."""


class AnthropicSettingsSchema(Schema):
    version = String(validate=_check_header_value)
    betas = fields.List(String())
    default_max_tokens = Integer(least=1)
    auth = String(choices=("x-api-key", "bearer"))
    thinking = String(choices=("budget", "adaptive"))
    sampling = String(choices=("all", "one", "none"))
    system_turns = Boolean()
    prompt_cache = String(choices=("never", "auto"))
    model_rules = fields.Dict(keys=String())


class AnthropicSettings(Value, frozen=True, kw_only=True):
    """The settings of one upstream. `default_max_tokens` is None when the model decides; `model_table` has its facts.

    `prompt_cache`: whether translated requests without cache markers get some.
    """

    version: str = DEFAULT_VERSION
    betas: tuple[str, ...] = ("*",)
    default_max_tokens: int | None = None
    auth: Literal["x-api-key", "bearer"] = "x-api-key"
    prompt_cache: Literal["never", "auto"] = "never"
    model_table: ModelTable[ModelFeatures] = field(default_factory=lambda: build_table(ModelFeatures, __package__, {}))

    @property
    def allows_threads(self) -> bool:
        """Return whether conf names the beta of threads.

        ``*`` is not enough: an upstream keeps a thread under an id that every caller of the entry could continue.
        """
        return any(pattern.startswith(THREADS_BETA) for pattern in self.betas)

    def allows(self, beta: str) -> bool:
        """Return whether callers may use this ``anthropic-beta`` value."""
        return any(fnmatchcase(beta, pattern) for pattern in self.betas)


def read_settings(entry: ProviderEntry) -> tuple[str, AnthropicSettings]:
    """The base URL and the settings of a configuration entry. Raises ConfigError."""
    loaded = load_settings(AnthropicSettingsSchema, entry.settings)
    if "betas" in loaded:
        loaded["betas"] = tuple(loaded["betas"])
    every = {name: loaded.pop(name) for name in _FACTS_OF_ENTRY if name in loaded}
    loaded["model_table"] = build_table(ModelFeatures, __package__, loaded.pop(RULES_KEY, {}), every)
    base_url = normalize_base_url(
        entry.base_url, VERSION_PATH, default=DEFAULT_BASE_URL, endpoints=(COUNT_PATH, MESSAGES_PATH)
    )
    return base_url, AnthropicSettings(**loaded)
