"""The settings of a provider entry, and the facts about models that they refine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, get_args

from marshmallow import Schema, fields

from tornado_gate import ProviderEntry
from tornado_gate.codec.fields import Boolean, String
from tornado_gate.config import load_settings
from tornado_gate.http.base_url import normalize_base_url
from tornado_gate.types.value import Value, field
from tornado_gate.wire.model_table import RULES_KEY, ModelTable, build_table
from tornado_gate_gemini.provider.address import DEFAULT_BASE_URL, MODELS_PATH, VERSION_PATH
from tornado_gate_gemini.wire.generate import GeminiModelFeatures
from tornado_gate_gemini.wire.generate.model_features import GeminiOperation

OPERATIONS: Final = frozenset(get_args(GeminiOperation))


class GeminiSettingsSchema(Schema):
    """The settings of a provider entry that this plugin defines."""

    json_schema = Boolean()
    thought_signature_dummy = Boolean()
    model_rules = fields.Dict(keys=String())


class GeminiSettings(Value, frozen=True, kw_only=True):
    """The settings of one upstream: `model_table` has the facts of its models."""

    model_table: ModelTable[GeminiModelFeatures] = field(
        default_factory=lambda: build_table(GeminiModelFeatures, __package__, {})
    )

    def list_operations(self) -> Mapping[str, frozenset[str]]:
        """The operations of models by pattern of their names; the first match counts."""
        patterns = self.model_table.list_patterns("operations")
        return {pattern: frozenset(operations) for pattern, operations in patterns.items()}


def read_settings(entry: ProviderEntry) -> tuple[str, GeminiSettings]:
    """The base URL and the settings of a configuration entry. Raises ConfigError."""
    loaded = load_settings(GeminiSettingsSchema, entry.settings)
    every: dict[str, Any] = {}
    if not loaded.get("json_schema", True):
        every["schema"] = "openapi"
    if not loaded.get("thought_signature_dummy", True):
        every["signature_dummy"] = False
    table = build_table(GeminiModelFeatures, __package__, loaded.get(RULES_KEY, {}), every)
    base_url = normalize_base_url(entry.base_url, VERSION_PATH, default=DEFAULT_BASE_URL, endpoints=(MODELS_PATH,))
    return base_url, GeminiSettings(model_table=table)
