"""What callers ask for, one class per operation. A provider matches on the class and refuses the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from tornado_gate.types.common_request import CommonRequest
from tornado_gate.types.content import Extra, Message
from tornado_gate.types.media_requests import (
    EmbeddingRequest,
    ImageRequest,
    ModerationRequest,
    SpeechRequest,
    TranscriptionRequest,
)
from tornado_gate.types.realtime import ClientSecretRequest, RealtimeRequest
from tornado_gate.types.value import Value, field
from tornado_gate.types.videos import TaskRequest, VideoCancel, VideoDownload, VideoPoll, VideoRequest
from tornado_gate.types.wire import Upload


class Tool(Value, frozen=True, kw_only=True):
    """A function the model may call; `parameters` is a JSON schema."""

    name: str
    description: str | None = None
    parameters: Mapping[str, Any] | None = None
    strict: bool | None = None
    extra: Extra = field(default_factory=dict)


class VendorTool(Value, frozen=True, kw_only=True):
    """A tool that only `wire_format` knows (web search, custom grammar, …): `value` as it came."""

    wire_format: str
    value: Mapping[str, Any]


class ToolChoice(Value, frozen=True, kw_only=True):
    """`mode` "tool" forces the tool `name`; "allowed" restricts to `names` with `required` saying whether one must be called.

    `vendor` holds a choice that only the request's own wire format knows.
    """

    mode: Literal["auto", "none", "required", "tool", "allowed", "vendor"]
    name: str | None = None
    names: tuple[str, ...] = ()
    required: bool = False
    vendor: Mapping[str, Any] | None = None


class ResponseFormat(Value, frozen=True, kw_only=True):
    """What the answer's text must be. `schema` is a JSON schema, only with kind "json_schema"."""

    kind: Literal["text", "json_object", "json_schema"]
    name: str | None = None
    description: str | None = None
    schema: Mapping[str, Any] | None = None
    strict: bool | None = None
    extra: Extra = field(default_factory=dict)


class Reasoning(Value, frozen=True, kw_only=True):
    """How long to think: an `effort` word, or a budget in tokens; `summary` asks to see it."""

    effort: str | None = None
    budget_tokens: int | None = None
    summary: str | None = None
    enabled: bool | None = None


class ChatRequest(CommonRequest, frozen=True, kw_only=True):
    """One turn of a conversation, from whatever route it came.

    None means "the caller said nothing": it is never sent upstream. Lengths are in tokens. `wire_format` names the format
    the request came in, whose unknown top-level fields are in `extra`; `names` maps a field of this class to the name
    the caller used for it, so that a loss is reported in the caller's words.
    """

    model: str
    messages: tuple[Message, ...]
    wire_format: str = ""
    stream: bool = False
    include_usage: bool | None = None
    n: int | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: Mapping[str, float] | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    tools: tuple[Tool | VendorTool, ...] = ()
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    response_format: ResponseFormat | None = None
    reasoning: Reasoning | None = None
    modalities: tuple[str, ...] = ()
    audio: Mapping[str, Any] | None = None
    user: str | None = None
    metadata: Mapping[str, str] | None = None
    extra: Extra = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)

    def field_name(self, field_of_ours: str) -> str:
        """The caller's own name for one of our fields: ``max_tokens`` may have been ``max_completion_tokens``."""
        return self.names.get(field_of_ours, field_of_ours)

    def path(self, message: int, part: int | None = None) -> str:
        """The caller's own path of a message, or of one of its parts: ``messages.0.content.1``, ``contents.0.parts.1``.

        A format says in `names` what its words are: "messages" and "content" for all, or "messages.3" and
        "messages.3.content.1" for one that stands elsewhere.
        """
        names = self.names
        place = names.get(f"messages.{message}") or f"{names.get('messages', 'messages')}.{message}"
        if part is None:
            return place
        return names.get(f"messages.{message}.content.{part}") or f"{place}.{names.get('content', 'content')}.{part}"


class CountTokensRequest(CommonRequest, frozen=True, kw_only=True):
    """How many tokens would the prompt of `chat` take? Nothing is generated."""

    model: str
    chat: ChatRequest


class ModelsRequest(CommonRequest, frozen=True, kw_only=True):
    """The models this key may use; `model` asks for one. Answered by the core, no provider sees it."""

    model: str | None = None


class VerbatimRequest(Value, frozen=True, kw_only=True):
    """A checked body in `wire_format` that goes to a provider which speaks that format, as it came.

    `raw` is the JSON text and `body` the same parsed; change it with `patch_json`, which touches no other byte. Of a form
    `body` has the text fields and `files` the files: `codec.multipart.FormBody` is a form to send. `operation` and `path` (the
    caller's) tell a provider where to send it. `state` is the format's own, for its `forward_response`.
    """

    wire_format: str
    operation: str
    path: str
    raw: bytes
    body: Mapping[str, Any]
    stream: bool = False
    state: Any = None
    files: tuple[Upload, ...] = ()
    form: bool = False


Request = (
    ChatRequest
    | ClientSecretRequest
    | CountTokensRequest
    | EmbeddingRequest
    | ImageRequest
    | ModelsRequest
    | ModerationRequest
    | RealtimeRequest
    | SpeechRequest
    | TaskRequest
    | TranscriptionRequest
    | VerbatimRequest
    | VideoCancel
    | VideoDownload
    | VideoPoll
    | VideoRequest
)
