"""Results of chat and of the core's own operations: usage, finish reasons, whole responses, model lists.

`extra` has members of the upstream's response that have no field here, under their wire names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from tornado_gate.types.content import Part
from tornado_gate.types.tools import Extra
from tornado_gate.types.value import Value, field

FinishReason = Literal["stop", "length", "tool_calls", "content_filter", "error", "other"]


class Usage(Value, frozen=True, kw_only=True):
    """Usage in tokens. None means "not reported", 0 means "reported as zero".

    `input_tokens` counts the whole prompt, cached or not; it includes `cache_read_tokens`, `cache_write_tokens` and the tokens
    of the prompt's images, sound and videos. These are `image_tokens`, `audio_input_tokens` and `video_input_tokens`.
    `cache_write_tokens` includes `cache_write_1h_tokens`, which are kept for an hour. `output_tokens` counts everything
    generated and includes `reasoning_tokens`, `audio_output_tokens` and `image_output_tokens`. `cached_audio_tokens` and
    `cached_image_tokens` are part of `cache_read_tokens` and of the tokens of their kind. `tool_input_tokens` are what tools of
    the upstream have added to the prompt, beside `input_tokens`. `extra` holds further counters of the upstream under its own
    names.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    image_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_write_1h_tokens: int | None = None
    reasoning_tokens: int | None = None
    audio_input_tokens: int | None = None
    audio_output_tokens: int | None = None
    image_output_tokens: int | None = None
    cached_audio_tokens: int | None = None
    cached_image_tokens: int | None = None
    video_input_tokens: int | None = None
    tool_input_tokens: int | None = None
    extra: Extra = field(default_factory=dict)

    @property
    def total_tokens(self) -> int | None:
        if self.input_tokens is None and self.output_tokens is None:
            return None
        return (self.input_tokens or 0) + (self.output_tokens or 0)


class Choice(Value, frozen=True, kw_only=True):
    """One of `n` choices: its `parts`, and the reason of its end (`reason`). `logprobs` is ``{"content": […]}``.

    `raw_reason` is the upstream's finish reason; `stop_sequence` the stop string that ended the text; `explanation` is the
    upstream's reason for filtering the content, if it sends one.
    """

    parts: tuple[Part, ...]
    reason: FinishReason
    raw_reason: str = ""
    stop_sequence: str | None = None
    explanation: str = ""
    logprobs: Mapping[str, Any] | None = None
    extra: Extra = field(default_factory=dict)


class ChatResult(Value, frozen=True, kw_only=True):
    """A whole chat response: `events.collect` builds it from stream events, `events.replay` converts it back.

    `model` and `id` are the upstream's; `choices` are in the order of their numbers, `usage` is None if it was not reported.
    `created` is Unix time in seconds.
    """

    model: str
    choices: tuple[Choice, ...]
    id: str | None = None
    created: int | None = None
    usage: Usage | None = None
    extra: Extra = field(default_factory=dict)


class TokenCount(Value, frozen=True, kw_only=True):
    """The only event of a count-tokens request: the prompt has `input_tokens`. `extra` holds further counters of the upstream
    under its own names.
    """

    input_tokens: int
    extra: Extra = field(default_factory=dict)


class Model(Value, frozen=True, kw_only=True):
    """One entry of a model list: `id` is the name for callers, `owner` the provider entry, `created` Unix seconds. `operations`
    are the supported ones; `facts` are the model's descriptive keys in conf.
    """

    id: str
    owner: str
    operations: frozenset[str]
    created: int
    facts: Mapping[str, Any] = field(default_factory=dict)


class ModelList(Value, frozen=True, kw_only=True):
    """The only event of a models request: `models`; `single` if the request names one model."""

    models: tuple[Model, ...]
    single: bool = False
