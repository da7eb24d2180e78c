"""The facts about a chat model of an upstream with the vendor's API. Pure."""

from __future__ import annotations

from typing import Literal

from tornado_gate.types import ServerToolKind
from tornado_gate.wire.model_features import ChatFeatures
from tornado_gate.wire.prompt_cache import CacheMarkers

Api = Literal["chat", "responses"]


class OpenAIModelFeatures(ChatFeatures, frozen=True, kw_only=True):
    """`api` is the API for the model's requests, `tools_api` the API for requests with tools.

    `sampling`: whether it accepts temperature, top_p and logprobs: "always", "without_reasoning" (with effort "none") or
    "never". `default_effort`: the effort of requests without one, if known. `least_output`: the smallest ``max_output_tokens``
    of the responses API. `reasoning_content`: at the chat API the thinking before tool calls must come back as this member.
    `responses_efforts`: efforts that only the responses API accepts. `summaries`: whether the responses API summarizes the
    reasoning; `chat_thinking`: whether the chat API shows any. `images`, `audio`: whether the model accepts these parts (a model
    that hears speaks too); `image_types`, `audio_types`, `files` and `chat_files`: the accepted media types, as patterns,
    the last at the chat API.
    `longest_call_id` and `longest_chat_call_id`: characters of the ids of tool calls. `strict_subset`: tool parameters and
    response schemas are checked against the vendor's subset of JSON schema. `json_word`: with the response format
    ``json_object`` the input must have the word JSON. `stored_metadata`: the chat API accepts ``metadata`` only with ``store``.
    `server_tools` are the tools of the responses API; `chat_server_tools` the tools of the chat API, which only search models
    have. `cache_markers`: the markers of reusable prefixes that it accepts in translated requests. `operations` is empty for a
    model whose operations are unknown.
    """

    api: Api = "chat"
    tools_api: Api = "chat"
    sampling: Literal["always", "without_reasoning", "never"] = "always"
    default_effort: str | None = None
    least_output: int | None = None
    reasoning_content: bool = False
    cache_markers: CacheMarkers = "none"
    chat_server_tools: tuple[ServerToolKind, ...] = ()
    responses_efforts: tuple[str, ...] = ()
    summaries: bool = True
    chat_thinking: bool = True
    images: bool = True
    audio: bool = True
    image_types: tuple[str, ...] | None = None
    audio_types: tuple[str, ...] | None = None
    files: tuple[str, ...] | None = None
    chat_files: tuple[str, ...] | None = None
    longest_call_id: int | None = None
    longest_chat_call_id: int | None = None
    strict_subset: bool = False
    json_word: bool = False
    stored_metadata: bool = False
    operations: tuple[str, ...] = ()

    def list_abilities(self) -> tuple[str, ...]:
        return self._name_abilities(self.images, self.audio, False, self.images and bool(self.files))
