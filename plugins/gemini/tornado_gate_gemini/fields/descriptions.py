"""What the API description says about the routes of this format. Imported when the description is requested.

Source of the answers: google-genai 3.4, types.GenerateContentResponse, CountTokensResponse, EmbedContentResponse and Model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.types import Route, RouteDescription, RouteExample, RouteParameter
from tornado_gate_gemini.fields.embeddings import EmbedBatchSchema, EmbedBodySchema
from tornado_gate_gemini.fields.generate import CountBodySchema, GenerateBodySchema
from tornado_gate_gemini.fields.interactions import InteractionBodySchema

_TAG: Final = "generateContent"
_INTERACTIONS: Final = "interactions"
_MAIN: Final = "/v1beta/models/{model}"
_TEXT: Final[Mapping[str, Any]] = {"type": "string"}
_COUNT: Final[Mapping[str, Any]] = {"type": "integer", "minimum": 0}
_PART: Final[Mapping[str, Any]] = {
    "type": "object",
    "description": "`text`, `inlineData`, `fileData`, `functionCall`, `functionResponse`, …",
    "properties": {"text": _TEXT},
    "additionalProperties": True,
}
_CONTENT: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {"role": {"type": ["string", "null"]}, "parts": {"type": "array", "items": _PART}},
    "additionalProperties": True,
}
_EMBEDDING: Final[Mapping[str, Any]] = {
    "type": "object",
    "required": ["values"],
    "properties": {"values": {"type": "array", "items": {"type": "number"}}},
    "additionalProperties": True,
}
_USAGE: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {"promptTokenCount": _COUNT, "candidatesTokenCount": _COUNT, "totalTokenCount": _COUNT},
    "additionalProperties": True,
}
_RESPONSE: Final[Mapping[str, Any]] = {
    "type": "object",
    "required": ["candidates"],
    "properties": {
        "candidates": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"content": _CONTENT, "finishReason": _TEXT, "index": _COUNT},
                "additionalProperties": True,
            },
        },
        "usageMetadata": _USAGE,
        "modelVersion": _TEXT,
        "responseId": _TEXT,
    },
    "additionalProperties": True,
}
_MODEL: Final[Mapping[str, Any]] = {
    "type": "object",
    "required": ["name", "version", "displayName", "supportedGenerationMethods"],
    "properties": {
        "name": _TEXT,
        "version": _TEXT,
        "displayName": _TEXT,
        "description": _TEXT,
        "inputTokenLimit": _COUNT,
        "outputTokenLimit": _COUNT,
        "supportedGenerationMethods": {"type": "array", "items": _TEXT},
    },
    "additionalProperties": True,
}
_MODELS: Final[Mapping[str, Any]] = {
    "type": "object",
    "required": ["models"],
    "properties": {"models": {"type": "array", "items": _MODEL}, "nextPageToken": _TEXT},
    "additionalProperties": True,
}
_ANYTHING: Final[Mapping[str, Any]] = {"type": "object", "additionalProperties": True}
_HELLO: Final = {"contents": [{"role": "user", "parts": [{"text": "Say hello."}]}]}
_WEATHER: Final = {
    "contents": [{"role": "user", "parts": [{"text": "What is the weather in Prague?"}]}],
    "tools": [
        {
            "functionDeclarations": [
                {
                    "name": "get_weather",
                    "description": "The weather of a city.",
                    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
                }
            ]
        }
    ],
}
_EMBED_EXAMPLE: Final = {"content": {"parts": [{"text": "A cat on a mat."}]}}
_SSE: Final = RouteParameter(
    name="alt",
    description="`sse`: server-sent events; without it, one JSON array.",
    schema={"type": "string", "enum": ["sse", "json"]},
    example="sse",
)
_PAGE: Final = (
    RouteParameter(name="pageSize", description="The most models of a page.", schema={"type": "integer", "minimum": 0}),
    RouteParameter(name="pageToken", description="`nextPageToken` of the previous page."),
)
_KEY_HEADER: Final[Mapping[str, str]] = {"x-goog-api-client": "example"}


def describe_route(route: Route) -> RouteDescription | None:
    """Return the description of one of the routes of this format."""
    path, action, method = route.path.rpartition(":")
    if action and method in _METHODS:
        return _METHODS[method] if path == _MAIN else RouteDescription(alias_of=f"{_MAIN}:{method}")
    if "/interactions" in route.path:
        return _describe_interaction(route)
    example = (
        RouteExample(name="generate", summary="As of the generateContent API", headers=_KEY_HEADER)
        if route.claims is not None
        else RouteExample(name="generate", summary="As of the generateContent API")
    )
    if route.path.endswith("{model}"):
        return RouteDescription(summary="Describe a model", tag="models", answer=_MODEL, examples=(example,))
    return RouteDescription(
        summary="List the models", tag="models", parameters=_PAGE, answer=_MODELS, examples=(example,)
    )


def _describe_interaction(route: Route) -> RouteDescription:
    if route.path.startswith("/v1/"):
        return RouteDescription(alias_of=f"/v1beta/{route.path.removeprefix('/v1/')}")
    needs = "a provider with this API"
    arguments = {"interaction_id": "INTERACTION"}
    if route.path.endswith("/interactions"):
        body = {"input": "Say hello."}
        return RouteDescription(
            summary="Create an interaction",
            description="Served by providers that have this API; the upstream keeps the interaction.",
            tag=_INTERACTIONS,
            body=InteractionBodySchema,
            answer=_ANYTHING,
            media_types={"text/event-stream": ""},
            examples=(RouteExample(name="text", summary="A question", body=body, needs=needs),),
        )
    summaries = {"POST": "Cancel an interaction", "GET": "Read an interaction", "DELETE": "Delete an interaction"}
    return RouteDescription(
        summary=summaries[route.method],
        tag=_INTERACTIONS,
        answer=_ANYTHING,
        examples=(RouteExample(name="one", summary="One interaction", arguments=arguments, needs=needs),),
    )


_METHODS: Final[Mapping[str, RouteDescription]] = {
    "generateContent": RouteDescription(
        summary="Generate content",
        description="Also makes images and speech, with models that do.",
        tag=_TAG,
        body=GenerateBodySchema,
        answer=_RESPONSE,
        examples=(
            RouteExample(name="text", summary="A question", body=_HELLO),
            RouteExample(name="tool", summary="A function", body=_WEATHER),
        ),
    ),
    "streamGenerateContent": RouteDescription(
        summary="Generate content as a stream",
        tag=_TAG,
        body=GenerateBodySchema,
        parameters=(_SSE,),
        answer={"type": "array", "items": _RESPONSE},
        media_types={"text/event-stream": 'data: {"candidates": [{"content": {"parts": [{"text": "Hi"}]}}]}\n\n'},
        examples=(
            RouteExample(name="events", summary="Server-sent events", body=_HELLO, query={"alt": "sse"}),
            RouteExample(name="array", summary="A JSON array", body=_HELLO),
        ),
    ),
    "countTokens": RouteDescription(
        summary="Count the tokens of contents",
        description="An estimate where no target of the model counts tokens.",
        tag=_TAG,
        body=CountBodySchema,
        answer={"type": "object", "required": ["totalTokens"], "properties": {"totalTokens": _COUNT}},
        examples=(RouteExample(name="text", summary="A question", body=_HELLO, operation="chat"),),
    ),
    "embedContent": RouteDescription(
        summary="Embed a content",
        tag="embeddings",
        body=EmbedBodySchema,
        answer={"type": "object", "required": ["embedding"], "properties": {"embedding": _EMBEDDING}},
        examples=(RouteExample(name="text", summary="A sentence", body=_EMBED_EXAMPLE),),
    ),
    "batchEmbedContents": RouteDescription(
        summary="Embed several contents",
        tag="embeddings",
        body=EmbedBatchSchema,
        answer={
            "type": "object",
            "required": ["embeddings"],
            "properties": {"embeddings": {"type": "array", "items": _EMBEDDING}},
        },
        examples=(
            RouteExample(name="texts", summary="Two sentences", body={"requests": [_EMBED_EXAMPLE, _EMBED_EXAMPLE]}),
        ),
    ),
}
