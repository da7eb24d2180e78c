"""All conversations: from each vendor to each other and back, for every caller, whole and streamed.

Each begins with a question and a picture, and has thinking, texts, parallel calls and their results, with pictures where the
caller's format has them there. Clients send the answers back whole, or without thinking, as most do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from qa.imitations.calling.run import find_vendor
from qa.imitations.calling.scenario import Caller, Feature, Scenario, Turn
from qa.imitations.calling.turns import PNG

MODELS: Final[Mapping[str, tuple[str, ...]]] = {
    "openai": ("gpt-5-mini", "gpt-4o"),
    "anthropic": ("claude-haiku-4-5", "claude-opus-5-5"),
    "gemini": ("gemini-2.5-flash", "gemini-3-pro-preview"),
}
DIRECTIONS: Final = tuple((first, second) for first in MODELS for second in MODELS if first != second)
CALLERS: Final[tuple[Caller, ...]] = ("chat", "responses", "messages", "generate")

_QUESTION: Final = "mark-question plan-interleaved both aloud"
_SCHEMA: Final = {"type": "object", "properties": {"at": {"type": "string"}}}
_URL: Final = f"data:image/png;base64,{PNG}"
_SOURCE: Final = {"type": "base64", "media_type": "image/png", "data": PNG}
_NAMES: Final = ("look", "list_all")
BODIES: Final[Mapping[Caller, dict[str, Any]]] = {
    "chat": {
        "messages": [
            {
                "role": "user",
                "content": [{"type": "text", "text": _QUESTION}, {"type": "image_url", "image_url": {"url": _URL}}],
            }
        ],
        "tools": [{"type": "function", "function": {"name": name, "parameters": _SCHEMA}} for name in _NAMES],
        "max_completion_tokens": 4_000,
    },
    "responses": {
        "input": [
            {
                "role": "user",
                "content": [{"type": "input_text", "text": _QUESTION}, {"type": "input_image", "image_url": _URL}],
            }
        ],
        "tools": [{"type": "function", "name": name, "parameters": _SCHEMA, "strict": False} for name in _NAMES],
        "max_output_tokens": 4_000,
    },
    "messages": {
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": _QUESTION}, {"type": "image", "source": _SOURCE}]}
        ],
        "tools": [{"name": name, "input_schema": _SCHEMA} for name in _NAMES],
        "max_tokens": 4_000,
    },
    "generate": {
        "contents": [
            {
                "role": "user",
                "parts": [{"text": _QUESTION}, {"inlineData": {"mimeType": "image/png", "data": PNG}}],
            }
        ],
        "tools": [{"functionDeclarations": [{"name": name, "parametersJsonSchema": _SCHEMA} for name in _NAMES]}],
        "generationConfig": {"maxOutputTokens": 4_000},
    },
}
_THINKING: Final[Mapping[Caller, Mapping[str, Any]]] = {
    "chat": {"reasoning_effort": "medium"},
    "responses": {"reasoning": {"effort": "medium", "summary": "auto"}},
    "messages": {"thinking": {"type": "adaptive", "display": "summarized"}},
    "generate": {
        "generationConfig": {
            "maxOutputTokens": 4_000,
            "thinkingConfig": {"includeThoughts": True},
        }
    },
}
_BUDGET: Final = {"thinking": {"type": "enabled", "budget_tokens": 2_000}}
_STATELESS: Final = {"store": False, "include": ["reasoning.encrypted_content"]}


def list_scenarios(share: int = 1) -> Iterator[Scenario]:
    """Every conversation, or with every `share`-th pair of models of each direction."""
    for direction, (start, end) in enumerate(DIRECTIONS):
        pairs = [(first, second) for first in MODELS[start] for second in MODELS[end]]
        for first, second in pairs[direction % share :: share]:
            for caller in CALLERS:
                for name, body in _list_bodies(caller, first, second):
                    for forgets in (False, True):
                        for stream in (False, True):
                            yield _make_scenario(caller, name, body, (first, second), forgets=forgets, stream=stream)


def _list_bodies(caller: Caller, first: str, second: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "plain", BODIES[caller]
    if _may_think(caller, first) and _may_think(caller, second):
        yield "thinks", BODIES[caller] | _THINKING[caller]
        if caller == "responses":
            yield "stateless", BODIES[caller] | _THINKING[caller] | _STATELESS
    if caller == "messages" and "claude-haiku-4-5" in (first, second):
        yield "budget", BODIES[caller] | _BUDGET


def _may_think(caller: Caller, model: str) -> bool:
    """Whether the model's own vendor accepts the caller's words for thinking, which pass unchanged to it."""
    if find_vendor(model) == "openai" and caller in ("chat", "responses"):
        return model != "gpt-4o"
    return not (caller == "messages" and model == "claude-haiku-4-5")


def _make_scenario(
    caller: Caller, name: str, body: dict[str, Any], models: tuple[str, str], *, forgets: bool, stream: bool
) -> Scenario:
    first, second = models
    image = caller in ("responses", "messages")
    turns = (
        Turn("plan-parallel both aloud", model=second, image=image),
        Turn("plan-two-thoughts", model=first),
        Turn("plan-text"),
        Turn("plan-says-and-calls both", model=second),
        Turn("plan-text", model=second, image=image),
        Turn("plan-text", results=False, model=first),
    )
    label = f"{name}-to-{second}" + ("-forgets" if forgets else "")
    shows = name != "plain" and caller != "chat"
    feature = Feature(name=label, body=body, turns=turns, forgets=forgets, shows=shows)
    return Scenario(feature=feature, caller=caller, model=first, stream=stream)
