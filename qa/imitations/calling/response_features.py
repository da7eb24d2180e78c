"""What callers of ``/v1/responses`` send: one feature each, and where it must arrive.

Source: openai-python 3.52, types/responses/response_create_params.py and response_input_item_param.py.
"""

from __future__ import annotations

from typing import Any, Final

from qa.imitations.calling.places import (
    BMP,
    GIF,
    HEIC,
    PDF,
    closed_format,
    has_forced,
    has_text,
    is_off,
    names_one_tool,
    thinks,
)
from qa.imitations.calling.scenario import Feature, Need, Turn
from qa.imitations.calling.turns import PNG

_USER: Final = {"role": "user", "content": "mark-question plan-text"}
_OBJECT: Final = {
    "type": "object",
    "properties": {"at": {"type": "string"}},
    "required": ["at"],
    "additionalProperties": False,
}
_LOOK: Final = {"type": "function", "name": "look", "description": "mark-tool", "parameters": _OBJECT}
_LIST: Final = {
    "type": "function",
    "name": "list_all",
    "parameters": {"type": "object", "properties": {}},
    "strict": False,
}
_CALL: Final = {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": '{"at": "mark-arguments"}'}
_OUTPUT: Final = {"type": "function_call_output", "call_id": "call_1", "output": "mark-result plan-text"}


def _asks(plan: str, **rest: Any) -> dict[str, Any]:
    return {"input": [{"role": "user", "content": f"mark-question {plan}"}], **rest}


def _says(*content: Any) -> dict[str, Any]:
    return {"input": [{"role": "user", "content": list(content)}]}


def _items(*items: Any, **rest: Any) -> dict[str, Any]:
    return {"input": [_USER, *items], "tools": [_LOOK], **rest}


_TEXTS: Final = (
    Feature(name="string", body={"input": "mark-question plan-text", "max_output_tokens": 500}),
    Feature(name="instructions", body=_asks("plan-text", instructions="mark-instructions")),
    Feature(
        name="instructions-and-developer",
        body={
            "input": [{"role": "developer", "content": "mark-developer"}, _USER],
            "instructions": "mark-instructions",
        },
    ),
    Feature(name="developer-later", body={"input": [_USER, {"role": "developer", "content": "mark-later"}, _USER]}),
    Feature(
        name="parts",
        body=_says({"type": "input_text", "text": "mark-one"}, {"type": "input_text", "text": "mark-two plan-text"}),
    ),
    Feature(
        name="assistant-history",
        body={
            "input": [
                _USER,
                {
                    "type": "message",
                    "id": "msg_1",
                    "role": "assistant",
                    "status": "completed",
                    "content": [{"type": "output_text", "text": "mark-said", "annotations": []}],
                },
                _USER,
            ]
        },
    ),
    Feature(name="assistant-last", body={"input": [_USER, {"role": "assistant", "content": "mark-prefill "}]}),
)
_SETTINGS: Final = (
    Feature(
        name="sampling",
        body=_asks("plan-text", temperature=0.3, top_p=0.8),
        needs=(
            Need("temperature", "temperature", "generationConfig.temperature"),
            Need("top_p", "top_p", "generationConfig.topP"),
        ),
    ),
    Feature(
        name="max-output-tokens",
        body=_asks("plan-length", max_output_tokens=99),
        needs=(Need("max_output_tokens", "max_tokens", "generationConfig.maxOutputTokens"),),
    ),
    Feature(
        name="others",
        body=_asks(
            "plan-text",
            metadata={"a": "b"},
            user="mark-user",
            truncation="auto",
            max_tool_calls=3,
            top_logprobs=2,
            service_tier="flex",
            prompt_cache_key="mark-key",
            safety_identifier="mark-safety",
            include=["reasoning.encrypted_content"],
            store=False,
            text={"verbosity": "low"},
        ),
        needs=(
            Need("truncation"),
            Need("max_tool_calls"),
            Need("top_logprobs", None, "generationConfig.logprobs"),
            Need("service_tier"),
            Need("text.verbosity"),
        ),
    ),
    *(
        Feature(
            name=f"effort-{effort}",
            body=_asks("plan-says-and-calls", reasoning={"effort": effort, "summary": "auto"}, tools=[_LOOK]),
            needs=(Need("reasoning", is_off if effort == "none" else thinks, is_off if effort == "none" else thinks),),
            shows=effort != "none",
        )
        for effort in ("none", "minimal", "low", "medium", "high", "xhigh", "max")
    ),
    Feature(
        name="effort-without-summary",
        body=_asks("plan-calls", reasoning={"effort": "low"}, tools=[_LOOK]),
        needs=(Need("reasoning", thinks, thinks),),
    ),
    Feature(
        name="only-redacted",
        body=_asks("plan-only-redacted", reasoning={"effort": "low", "summary": "detailed"}),
        shows=True,
    ),
    *(
        Feature(name=plan, body=_asks(plan))
        for plan in ("plan-refused", "plan-window", "plan-paused", "plan-length", "plan-stopped")
    ),
    Feature(
        name="format",
        body=_asks(
            "plan-json", text={"format": {"type": "json_schema", "name": "x", "schema": _OBJECT, "strict": True}}
        ),
        needs=(Need("text.format", closed_format, closed_format),),
    ),
    Feature(
        name="format-and-effort",
        body=_asks(
            "plan-json",
            text={"format": {"type": "json_schema", "name": "x", "schema": _OBJECT}},
            reasoning={"effort": "high", "summary": "auto"},
        ),
        needs=(Need("text.format", closed_format, closed_format), Need("reasoning", thinks, thinks)),
        shows=True,
    ),
)
_TOOLS: Final = (
    Feature(name="tools", body=_asks("plan-parallel", tools=[_LOOK, _LIST])),
    Feature(
        name="tool-null-parameters",
        body=_asks(
            "plan-no-arguments", tools=[{"type": "function", "name": "look", "parameters": None, "strict": None}]
        ),
    ),
    Feature(
        name="tool-custom",
        body=_asks("plan-text", tools=[{"type": "custom", "name": "shell", "description": "mark-shell"}]),
    ),
    Feature(
        name="tools-foreign",
        body=_asks("plan-calls", tools=[_LOOK, {"type": "file_search", "vector_store_ids": ["vs_1"]}]),
        needs=(Need("tools.1"),),
    ),
    *(
        Feature(
            name=f"choice-{kind}",
            body=_asks("plan-calls", tools=[_LOOK, _LIST], tool_choice=choice),
            needs=(Need("tool_choice", place, place),),
        )
        for kind, choice, place in (
            ("none", "none", lambda body: not has_forced(body)),
            ("required", "required", has_forced),
            ("named", {"type": "function", "name": "list_all"}, has_forced),
            (
                "allowed",
                {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "look"}]},
                names_one_tool,
            ),
        )
    ),
    Feature(
        name="not-parallel",
        body=_asks("plan-parallel", tools=[_LOOK, _LIST], parallel_tool_calls=False),
        needs=(Need("parallel_tool_calls", "tool_choice.disable_parallel_tool_use", None, True),),
    ),
    Feature(
        name="image",
        body=_says(
            {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "auto"},
            {"type": "input_text", "text": "mark-text"},
        ),
        needs=(Need("input.0.content.0", *(lambda body: has_text(body, PNG),) * 2),),
    ),
    *(
        Feature(
            name=f"image-{media_type[6:]}",
            body=_says(
                {"type": "input_text", "text": "mark-text"},
                {"type": "input_image", "image_url": f"data:{media_type};base64,{data}", "detail": "auto"},
            ),
            refused=dict.fromkeys(refusing, "input.0.content.1"),
            needs=(Need("input.0.content.1", *(lambda body, data=data: has_text(body, data),) * 2),),
        )
        for media_type, data, refusing in (
            ("image/bmp", BMP, ("anthropic", "gemini")),
            ("image/gif", GIF, ("gemini",)),
            ("image/heic", HEIC, ("anthropic",)),
        )
    ),
    Feature(
        name="image-bmp-called",
        body=_items(
            _CALL,
            {
                **_OUTPUT,
                "output": [
                    {"type": "input_text", "text": "mark-result"},
                    {"type": "input_image", "image_url": f"data:image/bmp;base64,{BMP}"},
                ],
            },
        ),
        refused=dict.fromkeys(("anthropic", "gemini"), "input.2.output.1"),
    ),
    Feature(
        name="file",
        body=_says(
            {"type": "input_file", "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"},
            {"type": "input_text", "text": "Read"},
        ),
        needs=(Need("input.0.content.0", *(lambda body: has_text(body, PDF),) * 2),),
    ),
    Feature(name="file-url", body=_says({"type": "input_file", "file_url": "https://example.com/mark-file.pdf"})),
)
_HISTORIES: Final = (
    Feature(name="called", body=_items(_CALL, _OUTPUT)),
    Feature(
        name="called-thinking",
        body=_items(_CALL, _OUTPUT, reasoning={"effort": "medium", "summary": "auto"}),
        needs=(Need("reasoning", thinks, thinks),),
        shows=True,
    ),
    Feature(
        name="called-image",
        body=_items(
            _CALL,
            {
                **_OUTPUT,
                "output": [
                    {"type": "input_text", "text": "mark-result plan-text"},
                    {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "auto"},
                ],
            },
        ),
        needs=(Need("input.2.output.1", *(lambda body: has_text(body, PNG),) * 2),),
    ),
    Feature(
        name="called-twice",
        body=_items(
            _CALL, {**_CALL, "call_id": "call_2"}, {**_OUTPUT, "call_id": "call_2", "output": "mark-second"}, _OUTPUT
        ),
    ),
    Feature(name="called-with-text", body=_items({"role": "assistant", "content": "mark-said"}, _CALL, _OUTPUT)),
    Feature(
        name="foreign-reasoning",
        body=_items(
            {
                "type": "reasoning",
                "id": "rs_1",
                "summary": [{"type": "summary_text", "text": "Foreign."}],
                "encrypted_content": "gAAAAfore",
            },
            _CALL,
            _OUTPUT,
            reasoning={"effort": "low", "summary": "auto"},
        ),
        needs=(Need("input.1"),),
        shows=True,
    ),
    Feature(
        name="custom-called",
        body={
            "input": [
                _USER,
                {"type": "custom_tool_call", "call_id": "c_1", "name": "shell", "input": "mark-input"},
                {"type": "custom_tool_call_output", "call_id": "c_1", "output": "mark-result plan-text"},
            ],
            "tools": [{"type": "custom", "name": "shell"}],
        },
    ),
)
_LOOPS: Final = tuple(
    Feature(
        name=f"loop-{plan}" + ("-forgets" if forgets else "") + ("-image" if image else "") + f"-{summary}",
        body=_asks(plan, tools=[_LOOK, _LIST], reasoning={"effort": "medium", "summary": summary} if summary else None),
        turns=(
            Turn("plan-interleaved", image=image),
            Turn("plan-redacted"),
            Turn("plan-text"),
            Turn("plan-text", results=False),
        ),
        shows=bool(summary),
        forgets=forgets,
    )
    for plan in ("plan-says-and-calls", "plan-parallel", "plan-two-thoughts")
    for forgets, image in ((False, True), (True, False))
    for summary in ("auto", None)
)
_EDITED: Final = (
    Feature(
        name="edited-instructions",
        body=_asks("plan-parallel", tools=[_LOOK, _LIST], instructions="mark-monday", reasoning={"effort": "medium"}),
        turns=(Turn("plan-interleaved"), Turn("plan-calls", edits={"instructions": "mark-tuesday"}), Turn("plan-text")),
    ),
)

RESPONSES: Final = (*_TEXTS, *_SETTINGS, *_TOOLS, *_HISTORIES, *_LOOPS, *_EDITED)
