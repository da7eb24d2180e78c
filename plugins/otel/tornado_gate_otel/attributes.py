"""Names and values of attributes, by OpenTelemetry's semantic conventions for generative AI.

Source: github.com/open-telemetry/semantic-conventions-genai, docs/gen-ai/client-inference.md (main, read 2026-11-23),
and for HTTP github.com/open-telemetry/semantic-conventions v1.44.0, docs/http/http-spans.md. Attributes that only the
gateway defines begin with ``tornado_gate.``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlsplit

from tornado_gate.types import Call, ChatRequest, Request, Usage, VerbatimRequest

Attributes = dict[str, Any]

USAGE: Final = {
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "cache_read_tokens": "gen_ai.usage.cache_read.input_tokens",
    "cache_write_tokens": "gen_ai.usage.cache_write.input_tokens",
    "reasoning_tokens": "gen_ai.usage.reasoning.output_tokens",
    "audio_input_tokens": "gen_ai.usage.audio.input_tokens",
    "audio_output_tokens": "gen_ai.usage.audio.output_tokens",
    "cached_audio_tokens": "gen_ai.usage.audio.cache_read.input_tokens",
    "image_tokens": "gen_ai.usage.image.input_tokens",
    "image_output_tokens": "gen_ai.usage.image.output_tokens",
    "cached_image_tokens": "gen_ai.usage.image.cache_read.input_tokens",
}
REQUEST: Final = {
    "temperature": "gen_ai.request.temperature",
    "top_p": "gen_ai.request.top_p",
    "top_k": "gen_ai.request.top_k",
    "max_tokens": "gen_ai.request.max_tokens",
    "presence_penalty": "gen_ai.request.presence_penalty",
    "frequency_penalty": "gen_ai.request.frequency_penalty",
    "seed": "gen_ai.request.seed",
}
OTHER_NAMES: Final = {
    "max_tokens": ("max_completion_tokens", "max_output_tokens", "maxOutputTokens"),
    "top_p": ("topP",),
    "top_k": ("topK",),
    "presence_penalty": ("presencePenalty",),
    "frequency_penalty": ("frequencyPenalty",),
}
"""Other names of the members of `REQUEST`, in bodies that are forwarded."""
FLOATS: Final = frozenset({"temperature", "top_p", "presence_penalty", "frequency_penalty"})

PROVIDERS: Final = {
    "api.anthropic.com": "anthropic",
    "api.cohere.com": "cohere",
    "api.deepseek.com": "deepseek",
    "api.groq.com": "groq",
    "api.mistral.ai": "mistral_ai",
    "api.openai.com": "openai",
    "api.perplexity.ai": "perplexity",
    "api.x.ai": "x_ai",
    "generativelanguage.googleapis.com": "gcp.gemini",
}
"""Well-known values of gen_ai.provider.name by host."""
PROVIDER_SUFFIXES: Final = {
    ".openai.azure.com": "azure.ai.openai",
    ".services.ai.azure.com": "azure.ai.inference",
    ".amazonaws.com": "aws.bedrock",
    "aiplatform.googleapis.com": "gcp.vertex_ai",
}
PLUGINS: Final = {"gemini": "gcp.gemini"}
"""Well-known values of gen_ai.provider.name by plugin, for other hosts. Plugins whose name is the well-known value are
omitted.
"""

_MODEL = re.compile(rb'"(?:model|modelVersion)"\s*:\s*"([\x20-\x21\x23-\x5b\x5d-\x7e]{1,200})"')
MODEL_BYTES: Final = 2048


def describe_target(call: Call, names: Mapping[str, str]) -> Attributes:
    """Return the upstream and the model of a request."""
    target = call.target
    host, port = _split_host(target.base_url)
    attributes: Attributes = {
        "gen_ai.operation.name": call.operation,
        "gen_ai.provider.name": names.get(target.provider) or _find_provider(host, target.plugin),
        "gen_ai.request.model": target.upstream_model,
        "tornado_gate.provider": target.provider,
    }
    if host:
        attributes["server.address"] = host
        attributes["server.port"] = port
    return attributes


@lru_cache(1000)
def _split_host(url: str) -> tuple[str, int]:
    try:
        parts = urlsplit(url)
        return parts.hostname or "", parts.port or (80 if parts.scheme in ("http", "ws") else 443)
    except ValueError:
        return "", 0


@lru_cache(1000)
def _find_provider(host: str, plugin: str) -> str:
    for suffix, name in PROVIDER_SUFFIXES.items():
        if host.endswith(suffix):
            return name
    return PROVIDERS.get(host) or PLUGINS.get(plugin, plugin)


def describe_request(request: Request) -> Attributes:
    """Return the numbers that control a chat, without its content."""
    if isinstance(request, ChatRequest):
        values: Mapping[str, Any] = {name: getattr(request, name) for name in REQUEST}
    elif isinstance(request, VerbatimRequest):
        values = _read_body(request.body)
    else:
        return {}
    return {
        REQUEST[name]: float(value) if name in FLOATS else int(value)
        for name, value in values.items()
        if type(value) in (int, float)
    }


def _read_body(body: Mapping[str, Any]) -> dict[str, Any]:
    config = body.get("generationConfig") or body.get("generation_config")
    places = (body, config) if isinstance(config, Mapping) else (body,)
    members = {}
    for name in REQUEST:
        for spelling in (name, *OTHER_NAMES.get(name, ())):
            for location in places:
                if spelling in location:
                    members[name] = location[spelling]
    return members


def describe_usage(usage: Usage | None) -> Attributes:
    """Return the tokens that the upstream has reported."""
    if usage is None:
        return {}
    counts = {name: getattr(usage, name) for name in USAGE}
    return {USAGE[name]: count for name, count in counts.items() if count is not None}


def find_response_model(begin: bytes, end: bytes = b"") -> str:
    """Return the model that a response names in its first or last bytes; "" without one. In texts the quotes would be
    escaped.
    """
    match = _MODEL.search(begin, 0, MODEL_BYTES) or _MODEL.search(end, max(0, len(end) - MODEL_BYTES))
    return match[1].decode() if match else ""
