"""What callers of ``:generateContent`` send: one feature each, and where it must arrive.

Source: google-genai 3.4, types.py (GenerateContentConfig, Part, Tool).
"""

from __future__ import annotations

from typing import Any, Final

from qa.imitations.calling.places import BMP, HEIC, PDF, TIFF, closed_format, has_forced, has_text, is_off, thinks
from qa.imitations.calling.scenario import Feature, Need, Turn
from qa.imitations.calling.turns import PNG

_OBJECT: Final = {"type": "OBJECT", "properties": {"at": {"type": "STRING", "nullable": True}}, "required": ["at"]}
_LOOK: Final = {"name": "look", "description": "mark-tool", "parameters": _OBJECT}
_JSON: Final = {
    "name": "list_all",
    "parametersJsonSchema": {"type": "object", "properties": {"at": {"type": ["string", "null"]}}},
}


def _user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts)}


def _asks(plan: str = "plan-text", **rest: Any) -> dict[str, Any]:
    return {"contents": [_user({"text": f"mark-question {plan}"})], **rest}


def _config(plan: str = "plan-text", tools: Any = None, **config: Any) -> dict[str, Any]:
    return _asks(plan, generationConfig=config) | ({"tools": tools} if tools else {})


def _tools(*functions: Any, **rest: Any) -> dict[str, Any]:
    return {"tools": [{"functionDeclarations": list(functions)}], **rest}


def _call(**rest: Any) -> dict[str, Any]:
    return {"functionCall": {"name": "look", "args": {"at": "mark-arguments"}, **rest}}


def _response(text: str = "mark-result plan-text", **rest: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": "look", "response": {"output": text}, **rest}}


def _need(name: str, anthropic: Any = None, value: Any = ...) -> Need:
    return Need(f"generationConfig.{name}", anthropic, f"generationConfig.{name}", value)


_TEXTS: Final = (
    Feature(name="text", body=_asks()),
    Feature(name="text-without-role", body={"contents": [{"parts": [{"text": "mark-question"}]}]}),
    Feature(name="system", body=_asks(systemInstruction={"parts": [{"text": "mark-system"}]})),
    Feature(
        name="snake-case",
        body={
            **_asks(),
            "system_instruction": {"parts": [{"text": "mark-system"}]},
            "generation_config": {"max_output_tokens": 90},
        },
    ),
    Feature(
        name="history",
        body={
            "contents": [
                _user({"text": "mark-one"}),
                {"role": "model", "parts": [{"text": "mark-two"}]},
                _user({"text": "mark-three"}),
            ]
        },
    ),
    Feature(
        name="model-last",
        body={"contents": [_user({"text": "mark-one"}), {"role": "model", "parts": [{"text": "mark-two"}]}]},
    ),
    Feature(name="empty-part", body={"contents": [_user({"text": ""}, {"text": "mark-one"})]}),
    Feature(
        name="stored-stream",
        body={
            "contents": [
                _user({"text": "mark-one"}),
                {"role": "model", "parts": [{"text": "mark-two "}]},
                {"role": "model", "parts": [{"text": "mark-three"}]},
                {"role": "model", "parts": [{"text": ""}]},
                _user({"text": "mark-four"}),
            ]
        },
    ),
)
_SETTINGS: Final = (
    Feature(name="temperature", body=_config(temperature=0.4), needs=(_need("temperature", "temperature"),)),
    Feature(name="temperature-high", body=_config(temperature=1.5), needs=(_need("temperature", "temperature"),)),
    Feature(name="top-p", body=_config(topP=0.7), needs=(_need("topP", "top_p"),)),
    Feature(name="top-k", body=_config(topK=20), needs=(_need("topK", "top_k"),)),
    Feature(
        name="sampling",
        body=_config(temperature=0.4, topP=0.7, topK=20),
        needs=(_need("temperature", "temperature"), _need("topP", "top_p"), _need("topK", "top_k")),
    ),
    Feature(
        name="max-output-tokens",
        body=_config("plan-length", maxOutputTokens=80),
        needs=(_need("maxOutputTokens", "max_tokens"),),
    ),
    Feature(
        name="stops",
        body=_config("plan-stopped", stopSequences=["mark-stop"]),
        needs=(_need("stopSequences", "stop_sequences"),),
    ),
    Feature(
        name="unsupported",
        body=_config(
            seed=5,
            candidateCount=1,
            presencePenalty=0.5,
            frequencyPenalty=0.5,
            responseLogprobs=True,
            logprobs=3,
            mediaResolution="MEDIA_RESOLUTION_LOW",
        ),
        needs=tuple(
            _need(name)
            for name in (
                "seed",
                "presencePenalty",
                "frequencyPenalty",
                "responseLogprobs",
                "logprobs",
                "mediaResolution",
            )
        ),
    ),
    Feature(
        name="safety",
        body=_asks(safetySettings=[{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]),
        needs=(Need("safetySettings", None, "safetySettings"),),
    ),
    *(
        Feature(
            name=f"budget-{budget}",
            body=_config(
                "plan-says-and-calls",
                [{"functionDeclarations": [_LOOK]}],
                thinkingConfig={"thinkingBudget": budget, "includeThoughts": True},
            ),
            needs=(
                Need("generationConfig.thinkingConfig", thinks if budget else is_off, thinks if budget else is_off),
            ),
            shows=True,
        )
        for budget in (0, 300, 5000, 60000, -1)
    ),
    *(
        Feature(
            name=f"level-{level.lower()}",
            body=_config(
                "plan-parallel",
                [{"functionDeclarations": [_LOOK]}],
                thinkingConfig={"thinkingLevel": level, "includeThoughts": True},
            ),
            needs=(Need("generationConfig.thinkingConfig", thinks, thinks),),
            shows=True,
        )
        for level in ("MINIMAL", "LOW", "MEDIUM", "HIGH")
    ),
    Feature(
        name="shown",
        body=_config(
            "plan-says-and-calls", [{"functionDeclarations": [_LOOK]}], thinkingConfig={"includeThoughts": True}
        ),
        shows=True,
    ),
    Feature(
        name="response-schema",
        body=_config(
            "plan-json",
            responseMimeType="application/json",
            responseSchema={
                "type": "OBJECT",
                "properties": {"city": {"type": "STRING", "minLength": "1"}},
                "propertyOrdering": ["city"],
            },
        ),
        needs=(Need("generationConfig.responseSchema", closed_format, closed_format),),
    ),
    Feature(
        name="response-json-schema",
        body=_config(
            "plan-json",
            responseMimeType="application/json",
            responseJsonSchema={
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "additionalProperties": False,
            },
        ),
        needs=(Need("generationConfig.responseJsonSchema", closed_format, closed_format),),
    ),
    *(
        Feature(name=plan, body=_asks(plan))
        for plan in ("plan-refused", "plan-window", "plan-paused", "plan-only-redacted")
    ),
)
_TOOLS: Final = (
    Feature(name="tools", body=_asks("plan-parallel", **_tools(_LOOK, _JSON))),
    Feature(name="tool-bare", body=_asks("plan-no-arguments", **_tools({"name": "look"}))),
    Feature(name="tool-names", body=_asks("plan-parallel", **_tools({"name": "a.b:c-d"}, {"name": "x" * 64}))),
    Feature(
        name="tool-response-schema",
        body=_asks("plan-calls", **_tools({**_LOOK, "response": {"type": "STRING"}})),
        needs=(Need("tools.0.response", None, "tools.0.functionDeclarations.0.response", {"type": "STRING"}),),
    ),
    *(
        Feature(
            name=f"mode-{mode.lower()}" + ("-named" if names else ""),
            body=_asks(
                "plan-calls",
                **_tools(_LOOK, _JSON),
                toolConfig={
                    "functionCallingConfig": {"mode": mode} | ({"allowedFunctionNames": names} if names else {})
                },
            ),
            needs=(Need("toolConfig.functionCallingConfig", place, place),),
        )
        for mode, names, place in (
            ("AUTO", [], lambda body: not has_forced(body)),
            ("NONE", [], lambda body: not has_forced(body)),
            ("ANY", [], has_forced),
            ("ANY", ["look"], has_forced),
            ("ANY", ["look", "list_all"], has_forced),
            ("VALIDATED", ["look"], lambda body: has_text(body, "look")),
        )
    ),
    Feature(
        name="image",
        body={"contents": [_user({"inlineData": {"mimeType": "image/png", "data": PNG}}, {"text": "mark-text"})]},
        needs=(Need("contents.0.parts.0", *(lambda body: has_text(body, PNG),) * 2),),
    ),
    Feature(
        name="file",
        body={"contents": [_user({"inlineData": {"mimeType": "application/pdf", "data": PDF}}, {"text": "mark-text"})]},
        needs=(Need("contents.0.parts.0", *(lambda body: has_text(body, PDF),) * 2),),
    ),
    Feature(
        name="audio",
        body={
            "contents": [_user({"inlineData": {"mimeType": "audio/wav", "data": "bWFyaw=="}}, {"text": "mark-text"})]
        },
        needs=(Need("contents.0.parts.0", None, lambda body: has_text(body, "bWFyaw==")),),
    ),
    *(
        Feature(
            name=f"image-{media_type[6:]}" + ("" if said == media_type else "-said-to-be-png"),
            body={"contents": [_user({"text": "mark-text"}, {"inlineData": {"mimeType": said, "data": data}})]},
            refused={"anthropic": "contents.0.parts.1"},
        )
        for media_type, data in (("image/bmp", BMP), ("image/tiff", TIFF), ("image/heic", HEIC))
        for said in (media_type, "image/png")
    ),
    Feature(
        name="image-url",
        body={
            "contents": [
                _user(
                    {"fileData": {"fileUri": "https://example.com/mark-image.png", "mimeType": "image/png"}},
                    {"text": "mark-text"},
                )
            ]
        },
    ),
)
_HISTORIES: Final = (
    Feature(
        name="called",
        body=_asks(**_tools(_LOOK))
        | {"contents": [_user({"text": "mark-q"}), {"role": "model", "parts": [_call()]}, _user(_response())]},
    ),
    Feature(
        name="called-twice",
        body=_tools(_LOOK)
        | {
            "contents": [
                _user({"text": "mark-q"}),
                {"role": "model", "parts": [{"text": "mark-said"}, _call(), _call()]},
                _user(_response("mark-a"), _response("mark-b plan-text")),
            ]
        },
    ),
    Feature(
        name="called-ids",
        body=_tools(_LOOK)
        | {
            "contents": [
                _user({"text": "mark-q"}),
                {"role": "model", "parts": [_call(id="a/1"), _call(id="b")]},
                _user(_response("mark-b", id="b"), _response("mark-a plan-text", id="a/1")),
            ]
        },
    ),
    Feature(
        name="called-separately",
        body=_tools(_LOOK)
        | {
            "contents": [
                _user({"text": "mark-q"}),
                {"role": "model", "parts": [_call()]},
                {"role": "model", "parts": [_call()]},
                _user(_response("mark-a")),
                _user(_response("mark-b plan-text")),
            ]
        },
    ),
    Feature(
        name="foreign-signature",
        body=_tools(_LOOK)
        | {
            "contents": [
                _user({"text": "mark-q"}),
                {
                    "role": "model",
                    "parts": [
                        {"text": "Foreign.", "thought": True},
                        {**_call(), "thoughtSignature": "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="},
                    ],
                },
                _user(_response()),
            ]
        },
    ),
)
_LOOPS: Final = tuple(
    Feature(
        name=f"loop-{plan}" + ("-forgets" if forgets else "-image") + ("-shown" if shown else ""),
        body=_config(
            plan,
            [{"functionDeclarations": [_LOOK, _JSON]}],
            **({"thinkingConfig": {"includeThoughts": True}} if shown else {"maxOutputTokens": 20000}),
        ),
        turns=(
            Turn("plan-interleaved", image=not forgets),
            Turn("plan-redacted"),
            Turn("plan-text"),
            Turn("plan-text", results=False),
        ),
        shows=shown,
        forgets=forgets,
    )
    for plan in ("plan-says-and-calls", "plan-parallel", "plan-two-thoughts")
    for forgets in (False, True)
    for shown in (False, True)
)
_EDITED: Final = (
    Feature(
        name="edited-system",
        body=_asks("plan-parallel", **_tools(_LOOK, _JSON), systemInstruction={"parts": [{"text": "mark-monday"}]}),
        turns=(
            Turn("plan-interleaved"),
            Turn("plan-calls", edits={"systemInstruction": {"parts": [{"text": "mark-tuesday"}]}}),
            Turn("plan-text"),
        ),
    ),
)

GENERATE: Final = (*_TEXTS, *_SETTINGS, *_TOOLS, *_HISTORIES, *_LOOPS, *_EDITED)
