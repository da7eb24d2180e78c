"""What callers of ``:generateContent`` send to the vendor's own models: it passes unchanged, and comes back complete.

Source: google-genai 3.4, types.py.
"""

from __future__ import annotations

from typing import Any, Final

from qa.imitations.calling.scenario import Feature, Turn
from qa.imitations.calling.turns import PNG

_SECOND: Final = ("gemini-2.5-flash", "gemini-2.5-pro")
_THIRD: Final = (
    "gemini-3-pro-preview",
    "gemini-3-flash-preview",
    "gemini-3.1-pro-preview",
    "gemini-3.8-flash",
    "gemini-4-neon",
)
_LOOK: Final = {
    "name": "look",
    "description": "mark-tool",
    "parameters": {"type": "OBJECT", "properties": {"at": {"type": "STRING"}}},
}
_LIST: Final = {
    "name": "list_all",
    "parametersJsonSchema": {"type": "object", "properties": {"at": {"$ref": "#/$defs/a"}}, "$defs": {"a": {}}},
}
_TOOLS: Final = [{"functionDeclarations": [_LOOK, _LIST]}]
_SHOWN: Final = {"thinkingConfig": {"includeThoughts": True}}


def _asks(plan: str = "plan-text", **rest: Any) -> dict[str, Any]:
    return {"contents": [{"role": "user", "parts": [{"text": f"mark-question {plan}"}]}], **rest}


OWN: Final = (
    Feature(name="text", body=_asks(systemInstruction={"parts": [{"text": "mark-system"}]})),
    Feature(
        name="config",
        body=_asks(
            generationConfig={
                "temperature": 0.5,
                "topP": 0.9,
                "topK": 3,
                "seed": 1,
                "maxOutputTokens": 100,
                "stopSequences": ["mark-s"],
            }
        ),
    ),
    Feature(
        name="safety", body=_asks(safetySettings=[{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}])
    ),
    *(Feature(name=plan, body=_asks(plan)) for plan in ("plan-length", "plan-refused", "plan-window", "plan-long")),
    Feature(
        name="image",
        body={
            "contents": [
                {"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": PNG}}, {"text": "mark-t"}]}
            ]
        },
    ),
    Feature(
        name="json",
        body=_asks(
            "plan-json",
            generationConfig={
                "responseMimeType": "application/json",
                "responseSchema": {"type": "OBJECT", "properties": {"city": {"type": "STRING"}}},
            },
        ),
    ),
    Feature(
        name="forced",
        body=_asks(
            "plan-calls",
            tools=_TOOLS,
            toolConfig={"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["list_all"]}},
        ),
    ),
    Feature(
        name="none", body=_asks("plan-calls", tools=_TOOLS, toolConfig={"functionCallingConfig": {"mode": "NONE"}})
    ),
    *(
        Feature(
            name=f"loop-{plan}" + ("-image" if image else ""),
            body=_asks(plan, tools=_TOOLS, generationConfig=_SHOWN),
            turns=(Turn("plan-interleaved", image=image), Turn("plan-text"), Turn("plan-text", results=False)),
            models=_THIRD if image else (*_SECOND, *_THIRD),
            shows=True,
        )
        for plan in ("plan-says-and-calls", "plan-parallel")
        for image in (False, True)
    ),
    Feature(
        name="level",
        body=_asks("plan-calls", tools=_TOOLS, generationConfig={"thinkingConfig": {"thinkingLevel": "LOW"}}),
        models=_THIRD,
    ),
    Feature(
        name="budget",
        body=_asks(
            "plan-calls",
            tools=_TOOLS,
            generationConfig={"thinkingConfig": {"thinkingBudget": 1024, "includeThoughts": True}},
        ),
        models=_SECOND,
        shows=True,
    ),
)
