"""The requests that the cache may serve, and the key of a request.

The key is a digest of everything that the upstream receives. After a change of conf that changes the outgoing request
(another address, other headers, other rules of a model), older responses no longer match. The module depends on no wire
format: it checks members that have the same meaning in every format that defines them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any, Final

import orjson

from tornado_gate.types import (
    Call,
    ChatRequest,
    CountTokensRequest,
    EmbeddingRequest,
    ImageRequest,
    ModerationRequest,
    Request,
    SpeechRequest,
    UpstreamRequest,
    VendorTool,
    VerbatimRequest,
)
from tornado_gate_cache.settings import CacheRule

UNTRANSLATED: Final = (CountTokensRequest, EmbeddingRequest, ImageRequest, ModerationRequest, SpeechRequest)
STATE_MEMBERS: Final = (
    "background",
    "cachedContent",
    "cached_content",
    "container",
    "conversation",
    "mcp_servers",
    "previous_interaction_id",
    "previous_response_id",
    "web_search_options",
)
"""Members of a body whose response depends on, or creates, an object outside the request."""
FILE_MARKS: Final = (b'"file_id"', b'"fileUri"', b'"file_uri"')
"""Members that refer to files at the upstream. In a text, their quotes would be escaped."""
CALLERS_TOOLS: Final = frozenset({"function", "custom"})
DECLARATIONS: Final = frozenset({"functionDeclarations", "function_declarations"})
CHANGING_HEADERS: Final = frozenset(
    {"baggage", "idempotency-key", "traceparent", "tracestate", "user-agent", "x-client-request-id", "x-request-id"}
)
"""Headers that differ between requests without an effect on the response."""


def may_cache(rule: CacheRule, request: Request) -> bool:
    """Return whether the response to `request` depends on the request alone."""
    if isinstance(request, VerbatimRequest):
        body = request.body
        if request.form or request.files or keeps_state(body, stores_by_default=request.issued is not None):
            return False
        return rule == "all" or _find_temperature(body) == 0
    if isinstance(request, ChatRequest):
        if keeps_state(request.extra) or any(isinstance(tool, VendorTool) for tool in request.tools):
            return False
        return rule == "all" or request.temperature == 0
    return rule == "all" and isinstance(request, UNTRANSLATED)


def keeps_state(body: Mapping[str, Any], *, stores_by_default: bool = False) -> bool:
    """Return whether a body makes the upstream keep or use stored objects, or run tools."""
    if any(body.get(name) not in (None, False) for name in STATE_MEMBERS):
        return True
    if body.get("store", stores_by_default):
        return True
    tools = body.get("tools")
    return isinstance(tools, list) and any(map(_runs_at_upstream, tools))


def _runs_at_upstream(tool: Any) -> bool:
    """Return whether the upstream runs a tool itself, such as a search. The results of such tools change."""
    if not isinstance(tool, Mapping):
        return True
    kind = tool.get("type")
    if kind is not None:
        return kind not in CALLERS_TOOLS
    return "name" not in tool and not DECLARATIONS.issuperset(tool)


def _find_temperature(body: Mapping[str, Any]) -> Any:
    """Return the temperature of a body, at its top or in its object with the settings of generation."""
    temperature = body.get("temperature")
    if temperature is None:
        config = body.get("generationConfig") or body.get("generation_config")
        temperature = config.get("temperature") if isinstance(config, Mapping) else None
    return None if isinstance(temperature, bool) else temperature


def make_key(call: Call, outgoing: UpstreamRequest, owner: str) -> bytes | None:
    """Return the key of a request, of `owner` only; None if it has no body in memory, or refers to files."""
    body = outgoing.body
    if outgoing.json is not None:
        body = orjson.dumps(outgoing.json)
    if not isinstance(body, bytes) or outgoing.context is not None or outgoing.method != "POST" or not outgoing.url:
        return None
    if any(mark in body for mark in FILE_MARKS):
        return None
    target = call.target
    digest = blake2b(digest_size=32)
    keys = target.account_keys or (target.api_key,)
    texts = (owner, target.provider, target.plugin, target.upstream_model, outgoing.url, *sorted(keys))
    for text in (*texts, "", *_list_headers(outgoing.headers, keys)):
        raw = text.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8, "big"))
        digest.update(raw)
    digest.update(body)
    return digest.digest()


def _list_headers(headers: Mapping[str, str], keys: Iterable[str]) -> list[str]:
    """Return the headers that affect the response. The API key of an entry does not, so its header is omitted."""
    known = [key for key in keys if key]
    return sorted(
        f"{name.lower()}: {value}"
        for name, value in headers.items()
        if name.lower() not in CHANGING_HEADERS and not any(key in value for key in known)
    )
