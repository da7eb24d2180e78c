"""What a plugin tells the conformance kit of ``tornado-gate plugins check`` about itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tornado_gate.testing.scripted_upstream import Answerer
from tornado_gate.types.value import Value, field


class Conformance(Value, frozen=True, kw_only=True):
    """How the kit drives a plugin. Every field has a default; a provider that speaks a known wire format needs none.

    For providers: `settings` are those of the provider entry in conf; `base_path` is appended to the upstream's address;
    `api_key` is the key of the entry ("" for none; None: one that the kit makes), and `sends_key` false says that the plugin does
    not send it as it is. `models` are names of upstream models by operation, for a plugin with facts about models. `answer` makes
    the upstream's answer to each request; without it the answers are those of the plugin's contracts. In `settings` the texts
    ``{chat}``, ``{speech}``, … become names of models of the gateway, for a provider made of other models.

    For wrappers and formats: `plugin_settings` are the settings under ``plugins:``.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    base_path: str = ""
    api_key: str | None = None
    sends_key: bool = True
    models: Mapping[str, str] = field(default_factory=dict)
    answer: Answerer | None = None
    plugin_settings: Mapping[str, Any] = field(default_factory=dict)
