"""The ways (routes) and the upstreams of the walk: the two dimensions of the matrix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from qa.matrix import chat, completions, generate, messages, responses
from qa.matrix.fields import MODEL, Group


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Upstream:
    """A provider entry as in conf, and its model.

    `facts` are the model's facts in conf. With `translated` the verbatim lane is not used, as for a plugin that
    supports no caller's wire format.
    """

    name: str
    plugin: str
    model: str
    base_url: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    translated: bool = False


UPSTREAMS: Final = (
    Upstream(name="openai", plugin="openai", model="gpt-5.2", settings={"preset": "openai"}),
    Upstream(name="compatible", plugin="openai", model="some-model", base_url="https://upstream.test/v1"),
    Upstream(name="anthropic", plugin="anthropic", model="claude-sonnet-4-5"),
    Upstream(name="gemini", plugin="gemini", model="gemini-3-pro-preview"),
    Upstream(name="local", plugin="local", model="local-chat"),
)
"""The columns of the page."""

VARIANTS: Final = (
    Upstream(
        name="openai, asked by responses",
        plugin="openai",
        model="gpt-5.2",
        settings={"preset": "openai", "api": "responses"},
    ),
    Upstream(name="anthropic, newest", plugin="anthropic", model="claude-opus-4-8"),
    Upstream(name="anthropic, oldest", plugin="anthropic", model="claude-3-haiku-20240307"),
    Upstream(name="gemini 2.5", plugin="gemini", model="gemini-2.5-flash"),
)
"""Upstreams with other settings or models. They have no column, but no field may vanish there either."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Way:
    """A route. `path_arguments` fill its path, `headers` are required of its callers; `note` distinguishes ways of one route.

    `upstreams` are the columns of its table; `variants` are tested too, without a column. `form` says that bodies are
    forms; `fetches` gives the walk a fetcher for URLs.
    """

    name: str
    title: str
    path: str
    groups: tuple[Group, ...]
    sdk: str
    note: str = ""
    upstreams: tuple[Upstream, ...] = UPSTREAMS
    variants: tuple[Upstream, ...] = VARIANTS
    path_arguments: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    form: bool = False
    fetches: bool = False

    @property
    def heading(self) -> str:
        return f"`{self.title}` {self.note}".rstrip()


WAYS: Final = (
    Way(
        name="chat",
        title="POST /v1/chat/completions",
        path="/v1/chat/completions",
        groups=chat.GROUPS,
        sdk="openai",
    ),
    Way(
        name="responses",
        title="POST /v1/responses",
        path="/v1/responses",
        groups=responses.GROUPS,
        sdk="openai",
    ),
    Way(
        name="completions",
        title="POST /v1/completions",
        path="/v1/completions",
        groups=completions.GROUPS,
        sdk="openai",
    ),
    Way(
        name="messages",
        title="POST /v1/messages",
        path="/v1/messages",
        groups=messages.GROUPS,
        sdk="anthropic",
        headers={"anthropic-version": "2023-06-01"},
    ),
    Way(
        name="generateContent",
        title="POST /v1beta/models/{model}:generateContent",
        path="/v1beta/models/{model}:generateContent",
        groups=generate.GROUPS,
        sdk="google-genai",
        path_arguments={"model": MODEL},
    ),
)
