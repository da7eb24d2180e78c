"""A plugin's declaration for the conformance kit of ``tornado-gate plugins check``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tornado_gate.testing.scripted_upstream import Answerer
from tornado_gate.types.value import Value, field


class Conformance(Value, frozen=True, kw_only=True):
    """The kit's settings for a plugin. Every field has a default. A provider that accepts a supported wire format needs
    no other value.

    For providers: `settings` are the settings of the provider entry in conf; `base_path` is appended to the upstream's
    address. `api_key` is the key of the entry ("" for none; None: the kit makes a key). `sends_key` false means that
    the plugin does not send the key unchanged. `models` are names of upstream models by operation, for a plugin with
    facts about models. `answer` makes the upstream's response to each request; without it the responses come from the
    plugin's contracts. In `settings` the texts ``{chat}``, ``{speech}``, … become names of models of the gateway, for a
    provider made of other models.

    For wrappers and formats: `plugin_settings` are the settings under ``plugins:``.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    base_path: str = ""
    api_key: str | None = None
    sends_key: bool = True
    models: Mapping[str, str] = field(default_factory=dict)
    answer: Answerer | None = None
    plugin_settings: Mapping[str, Any] = field(default_factory=dict)
