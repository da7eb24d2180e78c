"""A provider with OpenAI's chat completions and embeddings APIs: a class for plugins to inherit.

Many vendors offer these two APIs and differ in the address and a few fields. A plugin for one of them is a subclass with these
facts. A vendor with OpenAI's other APIs (responses, images, sound, videos, realtime) is an entry of conf with the plugin
`openai`, and needs no other plugin. The same holds for a vendor whose differences are settings of that plugin.

Source: openai-python 3.52, resources/chat/completions and resources/embeddings.py.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from functools import partial
from typing import Any, ClassVar, Final

from marshmallow import Schema

from tornado_gate.codec.json_edit import REMOVE, patch_json
from tornado_gate.config import load_settings
from tornado_gate.errors import ConfigError, UnsupportedOperation
from tornado_gate.hookspecs import Capabilities, ProviderEntry, provider_impl
from tornado_gate.http.base_url import normalize_base_url
from tornado_gate.streams import batches, sse
from tornado_gate.streams.events import convert_whole, replay
from tornado_gate.types import (
    Call,
    ChatRequest,
    ChatResult,
    EmbeddingRequest,
    Operation,
    Request,
    StreamEvent,
    Target,
    UpstreamRequest,
    UpstreamResponse,
    VerbatimRequest,
)
from tornado_gate.types.wire import require_object
from tornado_gate.wire.fitting import fit_request
from tornado_gate.wire.model_features import ChatFeatures
from tornado_gate.wire.tool_names import fit_tools, restore_tools
from tornado_gate_openai.wire import chat, embeddings, formats

CHAT_PATH: Final = "/chat/completions"
EMBEDDINGS_PATH: Final = "/embeddings"

_PATHS: Final = {formats.OPENAI_CHAT: CHAT_PATH, formats.OPENAI_EMBEDDINGS: EMBEDDINGS_PATH}
_FORMAT_OF_OPERATION: Final[Mapping[Operation, str]] = {
    "chat": formats.OPENAI_CHAT,
    "embeddings": formats.OPENAI_EMBEDDINGS,
}
_FIELD_OF_MEMBER: Final = {**chat.FIELD_OF_MEMBER, "input": "inputs"}
"""By member of the body: the common field, where the names differ."""


class OpenAICompatible:
    """The hooks of a provider with OpenAI's API. A subclass states in which facts the vendor differs.

    `default_base_url` is used by entries of conf without ``base_url``; `version_path` is added to a base URL without a version.
    `operations` are "chat", "embeddings" or both. `unsupported` are members of bodies that the vendor rejects: they are removed
    and reported to the caller. `renamed` maps members to the vendor's names. `features` are facts about its chat models, for
    requests that are translated. `settings_schema` checks the keys of an entry that the core does not know.
    """

    default_base_url: ClassVar[str] = ""
    version_path: ClassVar[str] = "v1"
    operations: ClassVar[frozenset[Operation]] = frozenset({"chat"})
    unsupported: ClassVar[tuple[str, ...]] = ()
    renamed: ClassVar[Mapping[str, str]] = {}
    features: ClassVar[ChatFeatures] = ChatFeatures()
    settings_schema: ClassVar[type[Schema]] = Schema

    def get_headers(self, target: Target) -> dict[str, str]:
        """The headers of requests to `target`, with names in lower case. Override it if the key is sent in another way."""
        headers = {"content-type": "application/json"}
        if target.api_key:
            headers["authorization"] = f"Bearer {target.api_key}"
        return headers | {name.lower(): str(value) for name, value in target.headers.items()}

    @provider_impl
    def configure(self, entry: ProviderEntry) -> Capabilities:
        if not (entry.base_url or self.default_base_url):
            raise ConfigError([(("base_url",), "is missing; set the upstream's URL")])
        return Capabilities(
            operations=self.operations,
            speaks=frozenset(_FORMAT_OF_OPERATION[operation] for operation in self.operations),
            base_url=normalize_base_url(
                entry.base_url, self.version_path, default=self.default_base_url, endpoints=tuple(_PATHS.values())
            ),
            settings=load_settings(self.settings_schema, entry.settings),
        )

    @provider_impl
    def translate_request(self, call: Call, request: Request) -> UpstreamRequest:
        match request:
            case VerbatimRequest() if request.wire_format in _PATHS:
                changed = self._compute_changes(request.body, call.drop_field)
                if request.body.get("model") != call.target.upstream_model:
                    changed["model"] = call.target.upstream_model
                raw = patch_json(request.raw, changed, request.body) if changed else request.raw
                return self._make_request(call, _PATHS[request.wire_format], body=raw)
            case ChatRequest() if "chat" in self.operations:
                return self._make_request(call, CHAT_PATH, json=self._render_chat(call, request))
            case EmbeddingRequest() if "embeddings" in self.operations:
                body = embeddings.render_request(call, request)
                return self._make_request(call, EMBEDDINGS_PATH, json=self._change_body(call, request, body))
        raise UnsupportedOperation(
            f"The model '{call.model}' does not support this operation. Use a model that supports it."
        )

    @provider_impl
    def translate_response(
        self, call: Call, request: Request, incoming: UpstreamResponse
    ) -> AsyncIterator[StreamEvent]:
        if isinstance(request, EmbeddingRequest):
            return _parse_embeddings(request, incoming)
        if not isinstance(request, ChatRequest):
            raise TypeError(f"a response to {type(request).__name__} is not translated")
        if incoming.is_event_stream(otherwise=request.stream):
            events = chat.parse_stream(sse.read_data(incoming.chunks, incoming.provider), provider=incoming.provider)
        else:
            whole = convert_whole(incoming, _convert)
            events = whole or batches.DeferredItems(partial(_parse_whole, incoming), incoming.chunks)
        return restore_tools(events, request, self.features)

    def _make_request(self, call: Call, path: str, **body: Any) -> UpstreamRequest:
        return UpstreamRequest(url=call.target.base_url + path, headers=self.get_headers(call.target), **body)

    def _render_chat(self, call: Call, request: ChatRequest) -> dict[str, Any]:
        fitted = request
        if request.wire_format != formats.OPENAI_CHAT:
            fitted = fit_request(call, fit_tools(call, request, self.features), self.features)
        body = chat.render_request(call, fitted, max_tokens_name="max_tokens")
        return self._change_body(call, request, body)

    def _change_body(self, call: Call, request: ChatRequest | EmbeddingRequest, body: dict[str, Any]) -> dict[str, Any]:
        changed = self._compute_changes(
            body, lambda name: call.drop_field(request.field_name(_FIELD_OF_MEMBER.get(name, name)))
        )
        return {name: value for name, value in {**body, **changed}.items() if value is not REMOVE}

    def _compute_changes(self, body: Mapping[str, Any], report: Callable[[str], None]) -> dict[str, Any]:
        """Members to replace, or to remove (REMOVE). Calls `report` for each member whose value is lost."""
        changed: dict[str, Any] = {name: REMOVE for name in self.unsupported if name in body}
        lost = [name for name in changed if body[name] is not None]
        for name, other in self.renamed.items():
            if name in body and name not in changed:
                changed[name] = REMOVE
                if body.get(other) is None:
                    changed[other] = body[name]
                elif body[name] not in (None, body[other]):
                    lost.append(name)
        for name in lost:
            report(name)
        return changed


def _convert(body: Any) -> ChatResult:
    return chat.parse_response(require_object(body))


async def _parse_whole(incoming: UpstreamResponse) -> Iterator[StreamEvent]:
    return replay(chat.parse_response(await incoming.read_object()))


async def _parse_embeddings(request: EmbeddingRequest, incoming: UpstreamResponse) -> AsyncIterator[StreamEvent]:
    yield await embeddings.read_response(incoming, count=len(request.inputs))
