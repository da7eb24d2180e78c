"""Facts about one upstream: the entry's own settings take precedence over its preset."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from types import MappingProxyType
from typing import Any, Literal
from urllib.parse import urlsplit

import yaml
from marshmallow import Schema, ValidationError, fields, validate

from tornado_gate import ProviderEntry
from tornado_gate.codec.fields import Boolean, Integer, String
from tornado_gate.config import load_settings
from tornado_gate.errors import ConfigError
from tornado_gate.http.base_url import normalize_base_url
from tornado_gate.types import ChatRequest, Target
from tornado_gate.types.vendors import Vendor
from tornado_gate.wire.model_table import RULES_KEY, ModelTable, build_table
from tornado_gate_openai.provider.endpoints import ALL_PATHS, OPERATIONS
from tornado_gate_openai.provider.features import Api, OpenAIModelFeatures
from tornado_gate_openai.provider.models import needs_responses, wants_server_tool
from tornado_gate_openai.provider.voices import VOICE_OF_GEMINI

REQUIRED_MEMBERS = frozenset(("model", "messages", "input", "prompt", "stream", "file", "image", "images"))
"""Fields that cannot be dropped or renamed, because the plugin writes or reads them itself."""

DEFAULT_VERSION_PATH = "v1"
API_NAMES = ("auto", "chat", "responses")
OPENAI_HOST = "api.openai.com"
ROLE_NAMES = ("system", "developer", "user", "assistant", "tool")
BYTES_ONLY_MODELS = ("gpt-image-*", "chatgpt-image-*")
"""Models that always return image data (openai-python 3.52, types/image_generate_params.py)."""


def _check_not_required(names: Any) -> None:
    for name in names:
        if name in REQUIRED_MEMBERS:
            raise ValidationError(f"'{name}' cannot be dropped or renamed, because requests require it")


def _check_not_empty(names: Any) -> None:
    if any(not name for name in names):
        raise ValidationError("must not contain an empty name")


def _check_header_value(value: str) -> None:
    if not value.isascii() or not value.isprintable():
        raise ValidationError("must be printable ASCII text, because it is sent as an HTTP header")


class _TableField(fields.Dict):
    """A mapping whose errors are reported at their keys; marshmallow reports them one level deeper, below "key" or "value"."""

    def deserialize(
        self, value: Any, attr: str | None = None, data: Mapping[str, Any] | None = None, **rest: Any
    ) -> Any:
        try:
            return super().deserialize(value, attr, data, **rest)
        except ValidationError as error:
            if not isinstance(error.messages, dict):
                raise
            faults = {name: next(iter(fault.values())) for name, fault in error.messages.items()}
            raise ValidationError(faults) from None


def _make_names_field() -> _TableField:
    return _TableField(keys=String(), values=String(), validate=_check_not_required)


class OpenAISettingsSchema(Schema):
    """The settings of a provider entry that this plugin defines."""

    preset = String()
    version_path = String()
    rename = _make_names_field()
    drop = fields.List(String(), validate=_check_not_required)
    roles = _TableField(keys=String(choices=ROLE_NAMES), values=String(choices=ROLE_NAMES))
    usage_in_stream = Boolean()
    api = String(choices=API_NAMES)
    openai_models = Boolean()
    prompt_cache = String(choices=("never", "auto"))
    model_rules = fields.Dict(keys=String())
    responses = Boolean()
    completions = Boolean()
    compact = Boolean()
    input_tokens = Boolean()
    serves = fields.List(
        String(choices=OPERATIONS), validate=validate.Length(min=1, error="must contain at least one operation")
    )
    models = _TableField(keys=String(), values=fields.List(String(choices=OPERATIONS)), validate=_check_not_empty)
    inputs_at_once = Integer(least=1)
    image_bytes = fields.List(String(), validate=_check_not_empty)
    video_json = Boolean()
    realtime_dialect = String(choices=("beta", "current"))
    voices = _TableField(keys=String(), values=String(), validate=_check_not_empty)
    organization = String(validate=_check_header_value)
    project = String(validate=_check_header_value)


class TargetHeaders:
    """The cached headers of requests to one upstream. API key and configured headers do not change within a configuration."""

    def __init__(self) -> None:
        self._made: tuple[Target, Mapping[str, str]] | None = None

    def get_headers(self, target: Target, account: Mapping[str, str]) -> Mapping[str, str]:
        """The read-only, shared headers of requests to `target`; `account` has the account headers.

        Names are in lower case, so that configured headers replace default ones in any spelling.
        """
        made = self._made
        if made is not None:
            known = made[0]
            if known is target or (known.api_key == target.api_key and known.headers == target.headers):
                return made[1]
        headers = {"content-type": "application/json", **account}
        if target.api_key:
            headers["authorization"] = f"Bearer {target.api_key}"
        headers |= {name.lower(): str(value) for name, value in target.headers.items()}
        shared = MappingProxyType(headers)
        self._made = (target, shared)
        return shared


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAISettings:
    """How this upstream differs from OpenAI. `headers` are the account headers, with lower-case names.

    `api` is the API of translated chats, "auto" the API in the model's row; with `prompt_cache` "auto" they get a
    ``prompt_cache_key``. `responses`, `completions`, `compact` and `input_tokens` are True when the upstream has these
    endpoints. `unsigned_thinking` are patterns of models with ``reasoning_content``; with `rejects_thinking` the upstream
    rejects this member. `model_table` has the facts of its models. `serves` is the upstream's operations; `models` restricts
    them by name patterns; the first match counts. `image_bytes` is patterns of models that return image data by default;
    `video_json` is True when videos without an input image are requested with a JSON body; `realtime_dialect` is the dialect of
    its sessions; `voices` maps voices of other formats to this upstream's. `sent` caches the result of `get_headers`.
    `changes_nothing`: verbatim bodies need no other change than the model name. `forwards_chats`: the same for chats, which
    have more rules.
    """

    rename: Mapping[str, str] = field(default_factory=dict)
    drop: tuple[str, ...] = ()
    roles: Mapping[str, str] = field(default_factory=dict)
    usage_in_stream: bool = True
    api: Literal["auto", "chat", "responses"] = "auto"
    prompt_cache: Literal["never", "auto"] = "never"
    model_table: ModelTable[OpenAIModelFeatures] = field(
        default_factory=lambda: ModelTable(OpenAIModelFeatures, ()), repr=False
    )
    responses: bool = False
    unsigned_thinking: tuple[str, ...] = ()
    rejects_thinking: bool = False
    completions: bool = False
    compact: bool = False
    input_tokens: bool = False
    serves: frozenset[str] = frozenset(OPERATIONS)
    models: Mapping[str, frozenset[str]] = field(default_factory=dict)
    inputs_at_once: int | None = None
    image_bytes: tuple[str, ...] = BYTES_ONLY_MODELS
    video_json: bool = False
    realtime_dialect: str = "current"
    voices: Mapping[str, str] = field(default_factory=lambda: VOICE_OF_GEMINI)
    headers: Mapping[str, str] = field(default_factory=dict)
    sent: TargetHeaders = field(default_factory=TargetHeaders, compare=False, repr=False)
    changes_nothing: bool = field(init=False, compare=False, repr=False)
    forwards_chats: bool = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        changes = self.drop or self.rename or self.roles
        object.__setattr__(self, "changes_nothing", self.usage_in_stream and not changes)
        forwards_chats = self.changes_nothing and not self.responses and not self.rejects_thinking
        object.__setattr__(self, "forwards_chats", forwards_chats)

    def get_headers(self, target: Target) -> Mapping[str, str]:
        """The read-only headers of requests to `target`."""
        return self.sent.get_headers(target, self.headers)

    def choose_api(self, model: str, request: ChatRequest) -> Api:
        """The API for a translated request: the configured API, else the model's API if the upstream has it."""
        if self.api != "auto":
            return self.api
        features = self.model_table.find_features(model)
        api = features.tools_api if request.tools else features.api
        if not self.responses:
            return "chat"
        if api == "chat" and (needs_responses(request, features) or wants_server_tool(request, features)):
            return "responses"
        return api

    @property
    def operations(self) -> frozenset[str]:
        """The operations of the upstream, with token counts if it counts tokens."""
        return _add_counts(self.serves) if self.input_tokens else self.serves

    @property
    def operations_of_models(self) -> Mapping[str, frozenset[str]]:
        """`models`, with token counts for models with chat if the upstream counts tokens."""
        if not self.input_tokens:
            return self.models
        return {pattern: _add_counts(operations) for pattern, operations in self.models.items()}


def _add_counts(operations: frozenset[str]) -> frozenset[str]:
    return operations | {"count_tokens"} if "chat" in operations else operations


@lru_cache(maxsize=1)
def load_presets() -> Mapping[str, Mapping[str, Any]]:
    """The presets of presets.yaml, by name."""
    text = resources.files(__package__).joinpath("presets.yaml").read_text(encoding="utf-8")
    loaded: dict[str, dict[str, Any]] = yaml.safe_load(text)
    return loaded


def list_presets() -> list[Vendor]:
    """The vendors of presets.yaml."""
    return [
        Vendor(
            name=name,
            title=facts["title"],
            base_url=facts.get("base_url", ""),
            settings={"preset": name},
            needs_key=facts.get("needs_key", True),
        )
        for name, facts in load_presets().items()
    ]


def read_settings(entry: ProviderEntry) -> tuple[str, OpenAISettings]:
    """The base URL and the settings of a configuration entry. Raises ConfigError."""
    own = load_settings(OpenAISettingsSchema, entry.settings)
    name = own.get("preset", "")
    preset = _get_preset(name) if "preset" in own else {}
    known = {**preset, **own}
    for mapping in ("rename", "roles"):
        known[mapping] = {**preset.get(mapping, {}), **own.get(mapping, {})}
    base_url = _choose_base_url(
        entry.base_url or preset.get("base_url", ""), name, known.get("version_path", DEFAULT_VERSION_PATH)
    )
    is_vendor = urlsplit(base_url).hostname == OPENAI_HOST
    own_models = known.get("openai_models", is_vendor)
    api = known.get("api", "auto")
    responses = known.get("responses", api == "responses" or own_models)
    rules = {**preset.get(RULES_KEY, {}), **own.get(RULES_KEY, {})}
    account = {"openai-organization": own.get("organization"), "openai-project": own.get("project")}
    facts = OpenAISettings(
        rename={field: other for field, other in known["rename"].items() if field != other},
        drop=tuple(known.get("drop", ())),
        roles={role: other for role, other in known["roles"].items() if role != other},
        usage_in_stream=known.get("usage_in_stream", True),
        api=api,
        prompt_cache=known.get("prompt_cache", "never"),
        model_table=build_table(OpenAIModelFeatures, __package__ if own_models else None, rules),
        responses=responses,
        unsigned_thinking=tuple(pattern for pattern, facts in rules.items() if facts.get("reasoning_content")),
        rejects_thinking=own_models,
        completions=known.get("completions", False),
        compact=responses and known.get("compact", is_vendor),
        input_tokens=responses and known.get("input_tokens", is_vendor),
        serves=frozenset(known.get("serves", OPERATIONS)),
        models=_merge_models(own.get("models", {}), preset.get("models", {}), rules),
        inputs_at_once=known.get("inputs_at_once"),
        image_bytes=tuple(known.get("image_bytes", BYTES_ONLY_MODELS)),
        video_json=known.get("video_json", False),
        realtime_dialect=known.get("realtime_dialect", "current"),
        voices={**VOICE_OF_GEMINI, **preset.get("voices", {}), **own.get("voices", {})},
        headers={header: value for header, value in account.items() if value},
    )
    return base_url, facts


def _merge_models(
    own: Mapping[str, Any], presets: Mapping[str, Any], rules: Mapping[str, Any]
) -> dict[str, frozenset[str]]:
    """The patterns of the entry, of the preset and of models.yaml with `rules`, in this order, because the first match counts.

    OpenAI's names of models mean the same at every upstream.
    """
    known = build_table(OpenAIModelFeatures, __package__, rules).list_patterns("operations")
    patterns: dict[str, Any] = {}
    for pattern, names in (*own.items(), *presets.items(), *known.items()):
        patterns.setdefault(pattern, names)
    return {pattern: frozenset(operations) for pattern, operations in patterns.items()}


def _get_preset(name: str) -> Mapping[str, Any]:
    preset = load_presets().get(name)
    if preset is None:
        near = difflib.get_close_matches(name, load_presets(), n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"use one of {', '.join(sorted(load_presets()))}"
        raise ConfigError([(("preset",), f"unknown preset '{name[:50]}'; {hint}")])
    return preset


def _choose_base_url(base_url: str, preset: str, version_path: str) -> str:
    if not base_url:
        why = f"the preset '{preset}' requires it" if preset else "set the upstream's URL, or a preset"
        raise ConfigError([(("base_url",), f"is missing; {why}")])
    return normalize_base_url(base_url, version_path, endpoints=ALL_PATHS)
