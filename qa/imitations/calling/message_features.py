"""What callers of ``/v1/messages`` send to models of other vendors: one feature each, and where it must arrive.

Source: anthropic-python 2.11, types/message_create_params.py.
"""

from __future__ import annotations

from typing import Any, Final

from qa.imitations.calling.places import BMP, GIF, HEIC, PDF, closed_format, has_forced, has_text, is_off, thinks
from qa.imitations.calling.scenario import Feature, Need, Turn
from qa.imitations.calling.turns import PNG

_USER: Final = {"role": "user", "content": "mark-question plan-text"}
_OBJECT: Final = {"type": "object", "properties": {"at": {"type": "string"}}}
_LOOK: Final = {"name": "look", "description": "mark-tool", "input_schema": _OBJECT}
_LIST: Final = {"name": "list_all", "input_schema": {"type": "object"}}
_CALL: Final = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"at": "mark-arguments"}}


def _picture(media_type: str, data: str) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}


_IMAGE: Final = _picture("image/png", PNG)


def _asks(plan: str = "plan-text", **rest: Any) -> dict[str, Any]:
    return {"max_tokens": 8000, "messages": [{"role": "user", "content": f"mark-question {plan}"}], **rest}


def _says(*content: Any) -> dict[str, Any]:
    return {"max_tokens": 500, "messages": [{"role": "user", "content": list(content)}]}


def _history(*messages: Any, **rest: Any) -> dict[str, Any]:
    return {"max_tokens": 8000, "messages": [_USER, *messages], "tools": [_LOOK, _LIST], **rest}


def _result(content: Any, **rest: Any) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": content, **rest}]}


_CALLED: Final = {"role": "assistant", "content": [{"type": "text", "text": "mark-said"}, _CALL]}
_FOREIGN: Final = {"type": "thinking", "thinking": "Foreign.", "signature": "EqQBForeign"}

MESSAGES: Final = (
    Feature(name="text", body=_asks()),
    Feature(name="system", body=_asks(system="mark-system")),
    Feature(
        name="system-blocks",
        body=_asks(system=[{"type": "text", "text": "mark-a"}, {"type": "text", "text": "mark-b"}]),
    ),
    Feature(name="prefill", body=_asks() | {"messages": [_USER, {"role": "assistant", "content": "mark-p"}]}),
    Feature(
        name="users", body=_asks() | {"messages": [_USER, _USER, {"role": "assistant", "content": "mark-a"}, _USER]}
    ),
    Feature(
        name="sampling",
        body=_asks(temperature=0.4, top_p=0.7, top_k=9),
        needs=(
            Need("temperature", "temperature", "generationConfig.temperature"),
            Need("top_p", "top_p", "generationConfig.topP"),
            Need("top_k", "top_k", "generationConfig.topK"),
        ),
    ),
    Feature(
        name="max-tokens",
        body=_asks("plan-length", max_tokens=60),
        needs=(Need("max_tokens", "max_tokens", "generationConfig.maxOutputTokens"),),
    ),
    Feature(
        name="max-tokens-huge",
        body=_asks(max_tokens=120_000),
        needs=(Need("max_tokens", "max_tokens", "generationConfig.maxOutputTokens"),),
    ),
    Feature(name="stops", body=_asks("plan-stopped", stop_sequences=["mark-stop"])),
    Feature(name="stops-many", body=_asks(stop_sequences=[f"mark-stop-{n}" for n in range(8)])),
    Feature(
        name="others",
        body=_asks(metadata={"user_id": "mark-user"}, service_tier="standard_only", inference_geo="us"),
        needs=(Need("service_tier"), Need("inference_geo")),
    ),
    *(Feature(name=plan, body=_asks(plan)) for plan in ("plan-refused", "plan-window", "plan-long")),
    Feature(
        name="budget",
        body=_asks("plan-says-and-calls", tools=[_LOOK], thinking={"type": "enabled", "budget_tokens": 2048}),
        needs=(Need("thinking", thinks, thinks),),
        shows=True,
    ),
    Feature(
        name="budget-large",
        body=_asks(
            "plan-parallel", tools=[_LOOK], max_tokens=60_000, thinking={"type": "enabled", "budget_tokens": 50_000}
        ),
        needs=(Need("thinking", thinks, thinks),),
        shows=True,
    ),
    Feature(
        name="budget-small",
        body=_asks("plan-parallel", tools=[_LOOK], thinking={"type": "enabled", "budget_tokens": 1024}),
        needs=(Need("thinking", thinks, thinks),),
        shows=True,
    ),
    *(
        Feature(
            name=f"adaptive-{effort}",
            body=_asks(
                "plan-parallel",
                tools=[_LOOK],
                thinking={"type": "adaptive", "display": "summarized"},
                output_config={"effort": effort},
            ),
            needs=(Need("thinking", thinks, thinks),),
            shows=True,
        )
        for effort in ("low", "medium", "high", "xhigh", "max")
    ),
    Feature(name="adaptive", body=_asks("plan-text", thinking={"type": "adaptive"})),
    Feature(
        name="thinking-off",
        body=_asks("plan-text", thinking={"type": "disabled"}),
        needs=(Need("thinking", is_off, is_off),),
    ),
    Feature(
        name="format",
        body=_asks(
            "plan-json",
            output_config={"format": {"type": "json_schema", "schema": {**_OBJECT, "additionalProperties": False}}},
        ),
        needs=(Need("output_config.format", closed_format, closed_format),),
    ),
    Feature(
        name="format-and-tools",
        body=_asks(
            "plan-json",
            tools=[_LOOK],
            output_config={"format": {"type": "json_schema", "schema": {**_OBJECT, "additionalProperties": False}}},
        ),
        needs=(Need("output_config.format", closed_format, closed_format),),
    ),
    Feature(name="tools", body=_asks("plan-parallel", tools=[_LOOK, _LIST])),
    Feature(
        name="tool-names", body=_asks("plan-parallel", tools=[{**_LOOK, "name": "x" * 128}, {**_LOOK, "name": "0-a"}])
    ),
    Feature(
        name="tool-references",
        body=_asks(
            "plan-calls",
            tools=[
                {
                    "name": "look",
                    "input_schema": {
                        "type": "object",
                        "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
                        "properties": {"at": {"$ref": "#/$defs/node", "title": "At"}},
                    },
                }
            ],
        ),
    ),
    Feature(
        name="server-tool",
        body=_asks("plan-calls", tools=[_LOOK, {"type": "bash_20250124", "name": "bash"}]),
        needs=(Need("tools.1"),),
    ),
    *(
        Feature(
            name=f"choice-{choice['type']}",
            body=_asks("plan-calls", tools=[_LOOK, _LIST], tool_choice=choice),
            needs=(Need("tool_choice", place, place),),
        )
        for choice, place in (
            ({"type": "auto"}, lambda body: not has_forced(body)),
            ({"type": "none"}, lambda body: not has_forced(body)),
            ({"type": "any"}, has_forced),
            ({"type": "tool", "name": "list_all"}, has_forced),
        )
    ),
    Feature(
        name="not-parallel",
        body=_asks("plan-calls", tools=[_LOOK], tool_choice={"type": "auto", "disable_parallel_tool_use": True}),
        needs=(Need("tool_choice.disable_parallel_tool_use"),),
    ),
    Feature(
        name="image",
        body=_says(_IMAGE, {"type": "text", "text": "mark-text"}),
        needs=(Need("messages.0.content.0", *(lambda body: has_text(body, PNG),) * 2),),
    ),
    *(
        Feature(
            name=f"image-{name}" + ("-called" if called else ""),
            body=_history(_CALLED, _result([{"type": "text", "text": "mark-result"}, _picture(media_type, data)]))
            if called
            else _says({"type": "text", "text": "mark-text"}, _picture(media_type, data)),
            refused={"gemini": "messages.2.content.0.content.1" if called else "messages.0.content.1"},
        )
        for name, media_type, data in (("gif", "image/gif", GIF), ("bmp-said-to-be-png", "image/png", BMP))
        for called in (False, True)
    ),
    Feature(
        name="image-heic-called",
        body=_history(_CALLED, _result([{"type": "text", "text": "mark-result"}, _picture("image/heic", HEIC)])),
        needs=(Need("messages.2.content.0.content.1", None, lambda body: has_text(body, HEIC)),),
    ),
    Feature(
        name="image-url",
        body=_says(
            {"type": "image", "source": {"type": "url", "url": "https://example.com/mark-image.png"}},
            {"type": "text", "text": "mark-text"},
        ),
    ),
    Feature(
        name="documents",
        body=_says(
            {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PDF}},
            {"type": "text", "text": "mark-text"},
        ),
        needs=(Need("messages.0.content.0", *(lambda body: has_text(body, PDF),) * 2),),
    ),
    Feature(name="called", body=_history(_CALLED, _result("mark-result plan-text"))),
    Feature(name="called-error", body=_history(_CALLED, _result("mark-result plan-text", is_error=True))),
    Feature(name="called-empty", body=_history(_CALLED, _result(""))),
    Feature(
        name="called-image",
        body=_history(_CALLED, _result([{"type": "text", "text": "mark-result"}, _IMAGE])),
        needs=(Need("messages.2.content.0.content.1", *(lambda body: has_text(body, PNG),) * 2),),
    ),
    Feature(
        name="called-and-text",
        body=_history(
            _CALLED,
            {"role": "user", "content": [*_result("mark-result")["content"], {"type": "text", "text": "mark-more"}]},
        ),
    ),
    Feature(
        name="called-twice",
        body=_history(
            {"role": "assistant", "content": [_CALL, {**_CALL, "id": "toolu_2", "name": "list_all"}]},
            {
                "role": "user",
                "content": [
                    {**_result("mark-b")["content"][0], "tool_use_id": "toolu_2"},
                    *_result("mark-a")["content"],
                ],
            },
        ),
    ),
    Feature(
        name="foreign-thinking",
        body=_history({"role": "assistant", "content": [_FOREIGN, _CALL]}, _result("mark-result")),
        needs=(Need("messages.1.content.0"),),
    ),
    *(
        Feature(
            name=f"loop-{plan}" + ("-forgets" if forgets else "-image") + ("-shown" if thinking else ""),
            body=_asks(
                plan,
                tools=[_LOOK, _LIST],
                max_tokens=20_000,
                **({"thinking": {"type": "enabled", "budget_tokens": 4000}} if thinking else {}),
            ),
            turns=(
                Turn("plan-interleaved", image=not forgets),
                Turn("plan-two-thoughts"),
                Turn("plan-text"),
                Turn("plan-text", results=False),
            ),
            shows=thinking,
            forgets=forgets,
        )
        for plan in ("plan-says-and-calls", "plan-parallel", "plan-two-thoughts")
        for forgets in (False, True)
        for thinking in (False, True)
    ),
)
