"""Common requests, one class for each operation. A provider matches on the class and refuses unsupported ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from tornado_gate.types.common_request import CommonRequest
from tornado_gate.types.content import Message
from tornado_gate.types.media_requests import (
    EmbeddingRequest,
    ImageRequest,
    ModerationRequest,
    SpeechRequest,
    TranscriptionRequest,
)
from tornado_gate.types.realtime import ClientSecretRequest, RealtimeRequest
from tornado_gate.types.tools import Extra, Tool, VendorTool
from tornado_gate.types.upstream_objects import IssuedObjects, StoredObjectRequest
from tornado_gate.types.value import Value, field
from tornado_gate.types.videos import TaskRequest, VideoCancel, VideoDownload, VideoPoll, VideoRequest
from tornado_gate.types.wire import Upload


class ToolChoice(Value, frozen=True, kw_only=True):
    """A choice of tools: `mode` "tool" forces the tool `name`; "allowed" restricts the choice to `names`.

    With "allowed" and `required`, one of `names` must be called. `vendor` holds a choice that only the request's wire format
    defines.
    """

    mode: Literal["auto", "none", "required", "tool", "allowed", "vendor"]
    name: str | None = None
    names: tuple[str, ...] = ()
    required: bool = False
    vendor: Mapping[str, Any] | None = None


class ResponseFormat(Value, frozen=True, kw_only=True):
    """The required form of the response's text.

    `kind` "json_object" requires any JSON object, "json_schema" JSON that matches `schema`. `name` and `description` explain the
    schema to the model; `strict`: the text must match it exactly. These four come only with "json_schema". `extra` has further
    members of the caller's field.
    """

    kind: Literal["text", "json_object", "json_schema"]
    name: str | None = None
    description: str | None = None
    schema: Mapping[str, Any] | None = None
    strict: bool | None = None
    extra: Extra = field(default_factory=dict)


class Reasoning(Value, frozen=True, kw_only=True):
    """The reasoning effort: a level in `effort` (minimal, low, medium, high, …), or a budget in tokens in `budget_tokens`.

    `summary` requests a summary of the reasoning (auto, concise, detailed). `enabled` is the caller's switch, None without one.
    `visible`: the caller's format shows the reasoning of this request without an explicit request for it.
    """

    effort: str | None = None
    budget_tokens: int | None = None
    summary: str | None = None
    enabled: bool | None = None
    visible: bool = False


class ChatRequest(CommonRequest, frozen=True, kw_only=True):
    """A chat request of any wire format.

    None means that the caller omitted the field; it is never sent upstream. `model` is the caller's name: send
    ``call.target.upstream_model``. `messages` are the conversation, oldest first, with system messages at their positions.
    `stream`: the caller wants a stream; most providers stream from the upstream in any case. `include_usage`: the caller's stream
    shall end with the usage. `n` is the number of choices. `max_tokens` limits all generated tokens, reasoning included.
    `temperature`, `top_p`, `top_k`, `seed`, `presence_penalty` and `frequency_penalty` control the sampling, as every vendor
    defines them. `stop` are texts that end the response. `logit_bias` maps token ids to -100 to 100. `logprobs` requests log
    probabilities, `top_logprobs` that many alternatives for each token. `tools` are the tools that the model may call, and
    `tool_choice` decides whether it must; `parallel_tool_calls`: it may make several calls in one response. `response_format` is
    the form of the text, `reasoning` the amount of thinking. `modalities` are the kinds of output ("text", "audio"), empty for
    the model's default; `audio` has the requested ``voice`` and ``format``. `user` is the caller's id of the end user, `metadata`
    further labels of the request, for the upstream's records.

    `wire_format` is the format of the caller's request, whose unknown top-level fields are in `extra`; `names` maps fields of
    this class to the caller's names for them, so that dropped fields are reported under the caller's names.
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
        """Return the caller's name for a field of this class: ``max_completion_tokens`` for ``max_tokens``, for example."""
        return self.names.get(field_of_ours, field_of_ours)

    def member_name(self, field_of_ours: str, member: str) -> str:
        """Return the caller's name for a member of a field, for example of ``budget_tokens`` of ``reasoning``.

        `names` has it as "reasoning.budget_tokens" if the caller's member has another name.
        """
        return self.names.get(f"{field_of_ours}.{member}") or f"{self.field_name(field_of_ours)}.{member}"

    def tool_path(self, index: int) -> str:
        """Return the path of a tool in the caller's body.

        `names` has it as "tools.0" if the tool is not in the caller's array.
        """
        names = self.names
        return names.get(f"tools.{index}") or f"{names.get('tools', 'tools')}.{index}"

    def path(self, message: int, part: int | None = None, inner: int | None = None) -> str:
        """Return the path of a message or part in the caller's body: ``messages.0.content.1``, ``contents.0.parts.1``.

        `inner` is the number of a part inside a tool result. A format sets the names in `names`: the keys "messages" and
        "content" apply to all messages and parts. The keys "messages.3", "messages.3.content.1" and
        "messages.3.content.1.content.0" apply to single ones with another path.
        """
        names = self.names
        path = names.get(f"messages.{message}") or f"{names.get('messages', 'messages')}.{message}"
        if part is None:
            return path
        key = f"messages.{message}.content.{part}"
        path = names.get(key) or f"{path}.{names.get('content', 'content')}.{part}"
        return path if inner is None else names.get(f"{key}.content.{inner}") or f"{path}.content.{inner}"


class CountTokensRequest(CommonRequest, frozen=True, kw_only=True):
    """A request to count the tokens of the prompt of `chat` for `model`, without generating.

    `counted` is the caller's body with all objects that it refers to by id, if there are any. An estimate counts it instead of
    the body.
    """

    model: str
    chat: ChatRequest
    counted: Mapping[str, Any] | None = None


class ModelsRequest(CommonRequest, frozen=True, kw_only=True):
    """A request for the list of models that the caller's key may use, or only `model`. The core serves it, without a provider."""

    model: str | None = None


class VerbatimRequest(Value, frozen=True, kw_only=True):
    """A checked body in `wire_format` for a provider that accepts this format: the request of the verbatim lane.

    `raw` is the JSON text and `body` its parsed value; change the text with `patch_json`, which keeps all other bytes. `stream`:
    the body requests a stream. `form`: the caller sent a form, whose text fields are in `body` and whose files are in `files`;
    send it as `codec.multipart.FormBody`. The provider derives the upstream's path from `operation` and the caller's `path`.
    `state` belongs to the format, for its `forward_response`. `issued`: `forward_response` adds the ids of objects that the
    upstream keeps, and the core records them for the account; None without such objects. `slow_start`: the upstream sends no
    data until its work is done, which may take longer than ``timeouts.first_event``; only the total timeout applies.
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
    issued: IssuedObjects | None = None
    slow_start: bool = False


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
    | StoredObjectRequest
    | TaskRequest
    | TranscriptionRequest
    | VerbatimRequest
    | VideoCancel
    | VideoDownload
    | VideoPoll
    | VideoRequest
)
