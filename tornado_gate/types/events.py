"""The events of an answer, the same for every provider and every format.

Order: ResponseStart, then (PartStart, PartDelta*, PartEnd)* where parts may interleave and `index` says which, then
UsageReport at any time, then one Finish for each choice; or StreamError at any point, which ends the stream. The core checks
the order. Operations that are no chat answer with one result object as their only event; before an ImageResult may come
PartialImages, and a SpeechEnd ends what SpeechStart and SpeechChunks have brought.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from tornado_gate.errors import GateError
from tornado_gate.types.content import Extra, Opaque, Part
from tornado_gate.types.media_results import (
    EmbeddingResult,
    ImageResult,
    ModerationResult,
    PartialImage,
    SpeechChunk,
    SpeechEnd,
    SpeechStart,
    TranscriptionResult,
)
from tornado_gate.types.realtime import ClientSecret
from tornado_gate.types.results import FinishReason, ModelList, TokenCount, Usage
from tornado_gate.types.value import Value, field
from tornado_gate.types.videos import TaskList, TaskResult, VideoOperation

PartKind = Literal["text", "refusal", "thinking", "tool_call", "audio", "image", "vendor"]


class ResponseStart(Value, frozen=True, kw_only=True):
    """`model` is the upstream's name for itself; `id` and `created` (Unix seconds) are its own, when it has them."""

    model: str
    id: str | None = None
    created: int | None = None
    extra: Extra = field(default_factory=dict)


class PartStart(Value, frozen=True, kw_only=True):
    """Part `index` of choice `choice` begins. Indexes are unique in the stream and count from 0.

    `id`, `name` and `tool_kind` belong to a tool call, `id` also to audio, `media_type` to audio and images. A part that
    comes whole and is not text (an image, a vendor's part) is given as `part` and has no deltas.
    """

    index: int
    kind: PartKind
    choice: int = 0
    id: str = ""
    name: str = ""
    tool_kind: str = "function"
    media_type: str = ""
    redacted: bool = False
    part: Part | None = None
    extra: Extra = field(default_factory=dict)


class PartDelta(Value, frozen=True, kw_only=True):
    """More of part `index`: text, JSON text of tool arguments, or raw audio bytes.

    `logprobs` are the entries for this piece, each ``{"token", "logprob", "bytes", "top_logprobs"}``; `transcript` is
    text spoken in an audio part.
    """

    index: int
    data: str | bytes = ""
    logprobs: tuple[Mapping[str, Any], ...] | None = None
    transcript: str = ""


class PartEnd(Value, frozen=True, kw_only=True):
    """Part `index` is complete; `signature` is what must be echoed with it in the next turn."""

    index: int
    signature: Opaque | None = None
    extra: Extra = field(default_factory=dict)


class UsageReport(Value, frozen=True, kw_only=True):
    """Totals so far: a later report replaces an earlier one, nothing is added up."""

    usage: Usage


class Finish(Value, frozen=True, kw_only=True):
    """Choice `choice` is complete. `raw` is the upstream's own word for the reason."""

    reason: FinishReason
    raw: str = ""
    choice: int = 0
    stop_sequence: str | None = None
    extra: Extra = field(default_factory=dict)


class StreamError(Value, frozen=True, kw_only=True):
    """The answer failed after it began. Nothing follows; it must never be rendered as a normal finish."""

    error: GateError


Result = (
    ClientSecret
    | EmbeddingResult
    | ImageResult
    | ModelList
    | ModerationResult
    | SpeechEnd
    | TaskList
    | TaskResult
    | TokenCount
    | TranscriptionResult
    | VideoOperation
)
"""What ends an answer that is no chat."""

StreamEvent = (
    ResponseStart
    | PartStart
    | PartDelta
    | PartEnd
    | UsageReport
    | Finish
    | StreamError
    | PartialImage
    | SpeechStart
    | SpeechChunk
    | Result
)
