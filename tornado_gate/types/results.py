"""What comes back: usage, finish reasons, whole results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from tornado_gate.types.content import Extra, Part
from tornado_gate.types.value import Value, field

FinishReason = Literal["stop", "length", "tool_calls", "content_filter", "error", "other"]


class Usage(Value, frozen=True, kw_only=True):
    """Tokens. None is "not reported", 0 is "reported as zero".

    `input_tokens` counts all of the prompt, cached or not; `cache_read_tokens`, `cache_write_tokens` and `image_tokens`, what
    pictures in it took, are shares of it. `output_tokens` counts everything generated; `reasoning_tokens` is a share of it.
    `extra` keeps the upstream's further counters under its own names.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    image_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    extra: Extra = field(default_factory=dict)

    @property
    def total_tokens(self) -> int | None:
        if self.input_tokens is None and self.output_tokens is None:
            return None
        return (self.input_tokens or 0) + (self.output_tokens or 0)


class Choice(Value, frozen=True, kw_only=True):
    """One of `n` answers. `raw_reason` is the upstream's own word; `stop_sequence` the stop string that was met."""

    parts: tuple[Part, ...]
    reason: FinishReason
    raw_reason: str = ""
    stop_sequence: str | None = None
    logprobs: Mapping[str, Any] | None = None
    extra: Extra = field(default_factory=dict)


class ChatResult(Value, frozen=True, kw_only=True):
    """A whole answer: what `stream.collect` makes of events, and `stream.replay` takes apart again.

    `created` is Unix time in seconds.
    """

    model: str
    choices: tuple[Choice, ...]
    id: str | None = None
    created: int | None = None
    usage: Usage | None = None
    extra: Extra = field(default_factory=dict)


class TokenCount(Value, frozen=True, kw_only=True):
    """The only event of a count-tokens request. `extra` keeps the upstream's further counters under its own names."""

    input_tokens: int
    extra: Extra = field(default_factory=dict)


class Model(Value, frozen=True, kw_only=True):
    """One entry of a model list. `operations` are those that it can do; token limits are None when conf says nothing."""

    id: str
    owner: str
    operations: frozenset[str]
    created: int
    facts: Mapping[str, Any] = field(default_factory=dict)


class ModelList(Value, frozen=True, kw_only=True):
    """The only event of a models request; `single` when one model was asked for."""

    models: tuple[Model, ...]
    single: bool = False
