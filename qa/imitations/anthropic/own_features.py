"""What callers of ``/v1/messages`` send to the vendor's own models: it passes unchanged, and comes back complete.

Source: anthropic-python 2.11, types/message_create_params.py.
"""

from __future__ import annotations

from typing import Any, Final

from qa.imitations.calling.places import PDF
from qa.imitations.calling.scenario import Feature, Turn
from qa.imitations.calling.turns import PNG

_ADAPTIVE: Final = (
    "claude-sonnet-4-6",
    "claude-opus-4-7",
    "claude-opus-4-8",
    "claude-sonnet-5",
    "claude-opus-5",
    "claude-fable-5-1",
    "claude-opus-5-5",
    "claude-sonnet-5-5",
    "claude-haiku-5-5",
)
_MANUAL: Final = (
    "claude-sonnet-4-20250514",
    "claude-opus-4-1",
    "claude-haiku-4-5",
    "claude-opus-4-5",
    "claude-sonnet-4-6",
)
_STRUCTURED: Final = (*_ADAPTIVE, "claude-haiku-4-5", "claude-opus-4-5")
_OBJECT: Final = {"type": "object", "properties": {"at": {"type": "string"}}}
_CLOSED: Final = {**_OBJECT, "required": ["at"], "additionalProperties": False}
_TOOLS: Final = [
    {"name": "look", "description": "mark-tool", "input_schema": _OBJECT, "cache_control": {"type": "ephemeral"}},
    {"name": "list_all", "input_schema": {"type": "object"}},
]


def _asks(plan: str, **rest: Any) -> dict[str, Any]:
    return {"max_tokens": 8000, "messages": [{"role": "user", "content": f"mark-question {plan}"}], **rest}


def _says(*content: Any) -> dict[str, Any]:
    return {"max_tokens": 500, "messages": [{"role": "user", "content": list(content)}]}


_LOOP: Final = (Turn("plan-interleaved", image=True), Turn("plan-redacted"), Turn("plan-text"), Turn(results=False))

OWN: Final = (
    Feature(name="text", body=_asks("plan-text", system="mark-system", metadata={"user_id": "mark-user"})),
    Feature(
        name="system-blocks",
        body=_asks(
            "plan-text",
            system=[{"type": "text", "text": "mark-a", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
        ),
    ),
    Feature(
        name="sampling",
        body=_asks("plan-text", temperature=0.3),
        models=("claude-3-5-haiku-20241022", "claude-haiku-4-5", "claude-sonnet-4-6"),
    ),
    Feature(name="stops", body=_asks("plan-stopped", stop_sequences=["mark-stop"])),
    *(
        Feature(name=plan, body=_asks(plan))
        for plan in ("plan-length", "plan-refused", "plan-window", "plan-paused", "plan-long")
    ),
    Feature(name="service", body=_asks("plan-text", service_tier="standard_only", inference_geo="us")),
    Feature(
        name="prefill",
        body=_asks("plan-text")
        | {"messages": [{"role": "user", "content": "mark-q"}, {"role": "assistant", "content": "mark-p"}]},
        models=("claude-haiku-4-5", "claude-opus-4-1"),
    ),
    Feature(
        name="system-turn",
        body=_asks("plan-text")
        | {"messages": [{"role": "user", "content": "mark-q"}, {"role": "system", "content": "mark-s"}]},
        models=("claude-opus-4-8", "claude-opus-5", "claude-sonnet-5-5"),
    ),
    Feature(
        name="image",
        body=_says(
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
            {"type": "text", "text": "mark-t"},
        ),
    ),
    Feature(
        name="image-url",
        body=_says(
            {"type": "image", "source": {"type": "url", "url": "https://example.com/mark.png"}},
            {"type": "text", "text": "mark-t"},
        ),
    ),
    Feature(
        name="documents",
        body=_says(
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
                "title": "mark-title",
            },
            {
                "type": "document",
                "source": {"type": "text", "media_type": "text/plain", "data": "mark-data"},
                "context": "mark-context",
            },
            {"type": "text", "text": "Read"},
        ),
    ),
    Feature(
        name="format",
        body=_asks("plan-json", output_config={"format": {"type": "json_schema", "schema": _CLOSED}}),
        models=_STRUCTURED,
    ),
    Feature(
        name="strict",
        body=_asks("plan-calls", tools=[{"name": "look", "input_schema": _CLOSED, "strict": True}]),
        models=_STRUCTURED,
    ),
    Feature(
        name="forced",
        body=_asks(
            "plan-calls",
            tools=_TOOLS,
            tool_choice={"type": "tool", "name": "list_all", "disable_parallel_tool_use": True},
        ),
        models=("claude-3-5-haiku-20241022", *_MANUAL, "claude-opus-4-8"),
    ),
    Feature(
        name="between-tools",
        body=_asks("plan-parallel", tools=_TOOLS, thinking={"type": "between_tools"}, output_config={"effort": "low"}),
        turns=_LOOP,
        models=("claude-sonnet-5-5",),
        shows=True,
    ),
    *(
        Feature(
            name=f"adaptive-{effort}-{display}",
            body=_asks(
                "plan-parallel",
                tools=_TOOLS,
                thinking={"type": "adaptive", "display": display},
                output_config={"effort": effort},
            ),
            turns=_LOOP,
            models=_ADAPTIVE,
            shows=display == "summarized",
        )
        for effort, display in (("low", "summarized"), ("high", "omitted"))
    ),
    Feature(
        name="budget",
        body=_asks("plan-says-and-calls", tools=_TOOLS, thinking={"type": "enabled", "budget_tokens": 2048}),
        turns=_LOOP,
        models=_MANUAL,
        shows=True,
    ),
    Feature(name="default-thinking", body=_asks("plan-parallel", tools=_TOOLS), turns=_LOOP),
    Feature(name="forgets", body=_asks("plan-parallel", tools=_TOOLS), turns=_LOOP, forgets=True),
    Feature(name="sdk-cache", body=_asks("plan-text", cache_control={"type": "ephemeral"})),
)
