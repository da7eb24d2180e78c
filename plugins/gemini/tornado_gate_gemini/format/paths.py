"""The routes, and the test that recognises callers of this format. The server calls `routes` at its start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tornado_gate.types import Route, WireRequest
from tornado_gate.types.text_maps import TextMap
from tornado_gate.wire.prompt_prefix import make_prefix_reader
from tornado_gate_gemini import fields
from tornado_gate_gemini.fields import route_members
from tornado_gate_gemini.wire import formats

SDK_HEADER: Final = "x-goog-api-client"
STREAM_METHOD: Final = "streamGenerateContent"
KEEP_ALIVE: Final = b": ping\n\n"
BATCH_METHOD: Final = "batchEmbedContents"
INTERACTION_PATH: Final = "/interactions/{interaction_id}"
CANCEL_ACTION: Final = "cancel"
_read_generate_prefix = make_prefix_reader("tools", "systemInstruction", "system_instruction", conversation="contents")
_read_interaction_prefix = make_prefix_reader("tools", "system_instruction", conversation="input")
_MEDIA_OPERATIONS: Final = ("images", "image_edits", "speech")
"""Operations of a generate request to a model that does not support chat."""


def _make_method_options(
    operation: str,
    texts: TextMap,
    models: tuple[str, ...],
    wire_format: str = formats.GEMINI_GENERATE,
    also: tuple[str, ...] = (),
) -> dict[str, Any]:
    is_generate = wire_format == formats.GEMINI_GENERATE
    return {
        "operation": operation,
        "wire_format": wire_format,
        "other_operations": also,
        "references": fields.list_references if is_generate else None,
        "keep_alive": find_keep_alive if is_generate else None,
        "prompt_prefix": _read_generate_prefix if is_generate else None,
        "texts": texts,
        "other_models": models,
        **(route_members.GENERATE if is_generate else {}),
    }


def wants_events(wire: WireRequest) -> bool:
    """Return whether a stream is requested as server-sent events; without ``alt=sse`` it is a JSON array."""
    return (wire.query.get("alt") or wire.query.get("$alt")) == "sse"


def find_keep_alive(wire: WireRequest) -> bytes:
    """Return what keeps a stream of server-sent events alive before its first event, b"" for other requests."""
    is_stream = wire.route.path.endswith(f":{STREAM_METHOD}") and wants_events(wire)
    return KEEP_ALIVE if is_stream or wire.json.get("stream") is True else b""


_METHODS: Final[Mapping[str, dict[str, Any]]] = {
    "generateContent": _make_method_options(
        "chat", fields.GENERATE, route_members.GENERATE_MODELS, also=_MEDIA_OPERATIONS
    ),
    STREAM_METHOD: _make_method_options("chat", fields.GENERATE, route_members.GENERATE_MODELS, also=_MEDIA_OPERATIONS),
    "countTokens": _make_method_options("count_tokens", fields.COUNT, route_members.COUNT_MODELS),
    "embedContent": _make_method_options(
        "embeddings", fields.EMBEDDINGS, route_members.EMBEDDING_MODELS, formats.GEMINI_EMBEDDINGS
    ),
    BATCH_METHOD: _make_method_options(
        "embeddings", fields.EMBEDDINGS, route_members.EMBEDDING_MODELS, formats.GEMINI_EMBEDDINGS
    ),
}
_PREFIXES: Final = ("models/models/", "models/models%2F", "models/models%2f", "models/", "")
"""Path prefixes of a model's name. The empty one is for names with their own prefix, such as ``tunedModels/mine``."""


def _is_gemini_caller(headers: Mapping[str, str], query: Mapping[str, str]) -> bool:
    """Return whether a caller of ``/v1`` uses this format: it sends Google's key header, ``?key=`` or Google's SDK header."""
    return "x-goog-api-key" in headers or "key" in query or SDK_HEADER in headers


def _interaction_routes() -> Iterator[Route]:
    for version in ("/v1beta", "/v1"):
        yield Route(
            "POST",
            f"{version}/interactions",
            "chat",
            formats.GEMINI_INTERACTIONS,
            references=fields.list_interaction_references,
            keep_alive=find_keep_alive,
            prompt_prefix=_read_interaction_prefix,
            texts=fields.INTERACTIONS,
            other_models=route_members.INTERACTION_MODELS,
            **route_members.GENERATE,
        )
        path = version + INTERACTION_PATH
        texts = fields.INTERACTIONS
        yield Route("POST", f"{path}/{CANCEL_ACTION}", "chat", model="none", empty_body=True, texts=texts)
        yield from (Route(method, path, "chat", model="none", texts=texts) for method in ("GET", "DELETE"))


def routes() -> list[Route]:
    """Return the routes, the more specific paths first."""
    posts = [
        Route("POST", f"/{version}/{prefix}{{model}}:{method}", model="path", **members)
        for version in ("v1beta", "v1")
        for prefix in _PREFIXES
        for method, members in _METHODS.items()
    ]
    return [
        *posts,
        *_interaction_routes(),
        Route("GET", "/v1beta/models", "models", model="none"),
        Route("GET", "/v1beta/models/{model}", "models", model="none"),
        Route("GET", "/v1/models", "models", model="none", claims=_is_gemini_caller),
        Route("GET", "/v1/models/{model}", "models", model="none", claims=_is_gemini_caller),
    ]
