"""The stream events of a response, the same for every provider and every format.

Order: ResponseStart, then (PartStart, PartDelta*, PartEnd)*, where parts may interleave and `index` identifies the part;
UsageReport at any time after ResponseStart; then one Finish for each choice. A StreamError may come at any point and ends the
stream. The core checks the order. Operations other than chat have one result object as their only event, with two exceptions:
PartialImages may precede an ImageResult, and speech is SpeechStart, SpeechChunk*, SpeechEnd. `extra` has members of the
upstream's event that have no field here, under their wire names: a format of the same wire format writes them to the caller.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from tornado_gate.errors import GateError
from tornado_gate.types.citations import Citation
from tornado_gate.types.content import Opaque, Part
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
from tornado_gate.types.tools import Extra
from tornado_gate.types.value import Value, field
from tornado_gate.types.videos import TaskList, TaskResult, VideoOperation

PartKind = Literal["text", "refusal", "thinking", "tool_call", "audio", "image", "vendor"]


class ResponseStart(Value, frozen=True, kw_only=True):
    """The start of a chat response. `model`, `id` and `created` (Unix seconds) are the upstream's values, if it sent them."""

    model: str
    id: str | None = None
    created: int | None = None
    extra: Extra = field(default_factory=dict)


class PartStart(Value, frozen=True, kw_only=True):
    """The start of part `index` of choice `choice`, of this `kind`. Indexes are unique in the stream and count from 0.

    `redacted` belongs to thinking without text. `id`, `name` and `tool_kind` belong to a tool call, `id` also to audio,
    `media_type` to audio and images. A complete part that is not text (an image, a vendor's part) is in `part` and has no
    deltas.
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


class PartDelta(Value, frozen=True):
    """The next piece of part `index`: `data` is text, JSON text of tool arguments, or raw audio bytes.

    `logprobs` are the entries for this piece, each ``{"token", "logprob", "bytes", "top_logprobs"}``; `transcript` is the
    text spoken in an audio part.
    """

    index: int
    data: str | bytes = ""
    logprobs: tuple[Mapping[str, Any], ...] | None = None
    transcript: str = ""


class PartEnd(Value, frozen=True, kw_only=True):
    """The end of part `index`; `signature` must be returned with the part in the next turn. `citations` belong to a text."""

    index: int
    signature: Opaque | None = None
    citations: tuple[Citation, ...] = ()
    extra: Extra = field(default_factory=dict)


class UsageReport(Value, frozen=True, kw_only=True):
    """The `usage` so far, as totals: a later report replaces an earlier one; reports are not added up."""

    usage: Usage


class Finish(Value, frozen=True, kw_only=True):
    """The end of choice `choice`. `reason` is one of the common reasons, `raw` the upstream's own word.

    `stop_sequence` is the text of ``request.stop`` that ended the response; `explanation` is the reason for filtering the
    content.
    """

    reason: FinishReason
    raw: str = ""
    choice: int = 0
    stop_sequence: str | None = None
    explanation: str = ""
    extra: Extra = field(default_factory=dict)


class StreamError(Value, frozen=True, kw_only=True):
    """The response failed after it had begun, with `error`. No event follows; formats must not render it as a normal finish."""

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
"""The last event of a response to an operation other than chat."""

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
