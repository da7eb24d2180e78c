"""What is known of one upstream: a preset's facts under a conf entry's own settings."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from typing import Any

import yaml
from marshmallow import Schema, ValidationError, fields

from tornado_gate import ProviderEntry
from tornado_gate.config import load_settings
from tornado_gate.errors import ConfigError
from tornado_gate.fields import Boolean, String
from tornado_gate_openai.address import normalised

NEEDED = frozenset(("model", "messages", "input", "prompt", "stream"))
"""The fields without which there is no request: the plugin writes or reads them itself."""

DEFAULT_VERSION_PATH = "v1"
APIS = ("chat", "responses")
ROLES = ("system", "developer", "user", "assistant", "tool")


def _no_needed_field(names: Any) -> None:
    for name in names:
        if name in NEEDED:
            raise ValidationError(f"'{name}' cannot be taken out or renamed")


def _header_value(value: str) -> None:
    if not value.isascii() or not value.isprintable():
        raise ValidationError("must be plain ASCII text, as it becomes a header")


def _names() -> fields.Dict:
    return fields.Dict(keys=String(), values=String(), validate=_no_needed_field)


class Settings(Schema):
    """The keys of a provider entry that are this plugin's."""

    preset = String()
    version_path = String()
    rename = _names()
    drop = fields.List(String(), validate=_no_needed_field)
    roles = fields.Dict(keys=String(choices=ROLES), values=String(choices=ROLES))
    usage_in_stream = Boolean()
    api = String(choices=APIS)
    responses = Boolean()
    completions = Boolean()
    organization = String(validate=_header_value)
    project = String(validate=_header_value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """How this upstream differs from OpenAI. `headers` name the account there, with lower-case names.

    `api` is what requests are translated to that do not go up as they came; `responses` and `completions` say that those
    routes exist there.
    """

    rename: Mapping[str, str] = field(default_factory=dict)
    drop: tuple[str, ...] = ()
    roles: Mapping[str, str] = field(default_factory=dict)
    usage_in_stream: bool = True
    api: str = "chat"
    responses: bool = False
    completions: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)


@lru_cache(maxsize=1)
def presets() -> Mapping[str, Mapping[str, Any]]:
    """The vendors in presets.yaml, by name."""
    text = resources.files(__package__).joinpath("presets.yaml").read_text(encoding="utf-8")
    loaded: dict[str, dict[str, Any]] = yaml.safe_load(text)
    return loaded


def read(entry: ProviderEntry) -> tuple[str, Facts]:
    """The base address and the facts of a conf entry. Raises ConfigError."""
    own = load_settings(Settings, entry.settings)
    name = own.get("preset", "")
    preset = _preset(name) if "preset" in own else {}
    known = {**preset, **own}
    for mapping in ("rename", "roles"):
        known[mapping] = {**preset.get(mapping, {}), **own.get(mapping, {})}
    account = {"openai-organization": own.get("organization"), "openai-project": own.get("project")}
    facts = Facts(
        rename={field: other for field, other in known["rename"].items() if field != other},
        drop=tuple(known.get("drop", ())),
        roles={role: other for role, other in known["roles"].items() if role != other},
        usage_in_stream=known.get("usage_in_stream", True),
        api=known.get("api", "chat"),
        responses=known.get("responses", known.get("api") == "responses"),
        completions=known.get("completions", False),
        headers={header: value for header, value in account.items() if value},
    )
    base_url = entry.base_url or preset.get("base_url", "")
    return _address(base_url, name, known.get("version_path", DEFAULT_VERSION_PATH)), facts


def _preset(name: str) -> Mapping[str, Any]:
    preset = presets().get(name)
    if preset is None:
        near = difflib.get_close_matches(name, presets(), n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"known are {', '.join(sorted(presets()))}"
        raise ConfigError([(("preset",), f"unknown preset '{name[:50]}'; {hint}")])
    return preset


def _address(base_url: str, preset: str, version_path: str) -> str:
    if not base_url:
        why = f"the preset '{preset}' needs one" if preset else "give the upstream's address, or name a preset"
        raise ConfigError([(("base_url",), f"is missing; {why}")])
    try:
        return normalised(base_url, version_path)
    except ValueError as error:
        raise ConfigError([(("base_url",), str(error))]) from None
