"""Texts of Gemini's generateContent, of embeddings and of the Interactions API.

In a stream, the text parts of a candidate are one text up to a part of another type, and thoughts are another.
Positions of citations and of grounding supports are in bytes: both are left out of an answer of which a text was
replaced before them. Source: google-genai 3.4, types.py and _gaos/types/interactions/.
"""

from __future__ import annotations

from typing import Final

from tornado_gate.types.text_maps import (
    DATA,
    MEDIA,
    OTHER,
    TEXT,
    WORD,
    Data,
    Derived,
    Events,
    JsonText,
    Object,
    Shape,
    Text,
    TextMap,
    at_place,
    words,
)
from tornado_gate.types.texts import TextKind
from tornado_gate.wire.text_shapes import ERROR, ROLES, SCHEMA, USAGE, both_spellings

OWN_SIGNATURE: Final = "b3BhcXVlOjE6"
"""The start of a ``thoughtSignature`` that the gateway makes of another vendor's: base64 of "opaque:1:"; that of JSON follows."""

_OTHER_PARTS: Final = (
    "functionCall",
    "functionResponse",
    "inlineData",
    "fileData",
    "executableCode",
    "codeExecutionResult",
)


def _make_part(*, delta: bool) -> dict[str, Shape]:
    blob = Object(members=both_spellings({**words("mimeType"), "data": MEDIA}), others=TEXT)
    return both_spellings(
        {
            "text": Text(delta=delta),
            "thoughtSignature": Data(json_after=OWN_SIGNATURE),
            "inlineData": blob,
            "fileData": Object(kind="other", members=both_spellings(words("mimeType"))),
            "functionCall": Object(members={**words("id", "name"), "args": Text(kind="tool_call")}),
            "functionResponse": Object(
                kind="tool_result",
                members={
                    **words("id", "name", "scheduling"),
                    "response": TEXT,
                    "parts": Object(members=both_spellings({"inlineData": blob}), others=TEXT),
                },
            ),
            "executableCode": Object(kind="tool_call", members={**words("id", "language"), "code": TEXT}),
            "codeExecutionResult": Object(kind="tool_result", members={**words("id", "outcome"), "output": TEXT}),
            "toolCall": Object(kind="tool_call", members=both_spellings(words("id", "toolType")), others=TEXT),
            "toolResponse": Object(kind="tool_result", members=both_spellings(words("id", "toolType")), others=TEXT),
            "mediaResolution": Object(kind="other", members=words("level"), string=WORD),
            "videoMetadata": Object(kind="other", members=both_spellings(words("startOffset", "endOffset"))),
            "partMetadata": OTHER,
        }
    )


_PART: Final = Events(
    shapes={True: Object(members=_make_part(delta=False), kind="reasoning")},
    other=Object(members=_make_part(delta=False)),
    name="thought",
)
_TEXTS_END: Final = dict.fromkeys(_OTHER_PARTS, ("^",))
_PIECE: Final = Events(
    shapes={True: Object(members=_make_part(delta=True), kind="reasoning", place="parts.thought", ends=_TEXTS_END)},
    other=Object(members=_make_part(delta=True), place="parts.text", ends={**_TEXTS_END, "text": ("^thought",)}),
    name="thought",
)
_CONTENT: Final = Object(members={**words("role"), "parts": _PART}, kinds={"role": ROLES})
_TOOL: Final = Object(
    kind="other",
    members=both_spellings(
        {
            "functionDeclarations": Object(
                kind="other",
                members=both_spellings(
                    {
                        **words("name", "behavior"),
                        **dict.fromkeys(
                            ("parameters", "parametersJsonSchema", "response", "responseJsonSchema"), SCHEMA
                        ),
                    }
                ),
            ),
        }
    ),
)
_SPEECH: Final = Object(
    kind="other", members=both_spellings(words("languageCode", "voiceName", "voice", "speaker", "language"))
)
_SPEECH.members.update(
    both_spellings({"replicatedVoiceConfig": Object(kind="other", members=both_spellings({"voiceSampleAudio": DATA}))})
)
_SPEECH.members.update(
    both_spellings(
        dict.fromkeys(
            ("voiceConfig", "prebuiltVoiceConfig", "multiSpeakerVoiceConfig", "speakerVoiceConfigs", "speechConfig"),
            _SPEECH,
        )
    )
)
_CONFIG: Final = Object(
    kind="other",
    members=both_spellings(
        {
            **words(
                "responseMimeType", "responseModalities", "mediaResolution", "thinkingLevel", "aspectRatio", "imageSize"
            ),
            **words("personGeneration", "thinkingSummaries", "toolChoice", "outputMimeType"),
            **dict.fromkeys(("responseSchema", "responseJsonSchema"), SCHEMA),
            "speechConfig": _SPEECH,
        }
    ),
)
_CONFIG.members.update(both_spellings(dict.fromkeys(("thinkingConfig", "imageConfig"), _CONFIG)))
_SAFETY: Final = Object(
    kind="other", members=words("category", "threshold", "method", "probability", "severity", "type")
)
_TOOL_CONFIG: Final = Object(kind="other", members=both_spellings(words("mode", "allowedFunctionNames")))
_TOOL_CONFIG.members.update(both_spellings({"functionCallingConfig": _TOOL_CONFIG}))
_USER_CONTENT: Final = Object(members=_CONTENT.members, kinds=_CONTENT.kinds, kind="user")
_REQUEST: Final = Object(kind="other")
_REQUEST.members.update(
    both_spellings(
        {
            **words("model", "cachedContent", "serviceTier"),
            "contents": _USER_CONTENT,
            "systemInstruction": Object(members={**words("role"), "parts": _PART}, kind="system"),
            "tools": _TOOL,
            "toolConfig": _TOOL_CONFIG,
            "generationConfig": _CONFIG,
            "safetySettings": _SAFETY,
            "generateContentRequest": _REQUEST,
        }
    )
)


def _make_candidate(part: Shape, place: str) -> Object:
    grounding = Object(
        kind="other",
        members={
            "searchEntryPoint": Object(kind="other", members={"sdkBlob": DATA}),
            "groundingSupports": Derived(of="^content", empty=[], shape=OTHER),
        },
    )
    return Object(
        kind="other",
        members={
            **words("finishReason"),
            "content": Object(members={**words("role"), "parts": part}, kind="assistant"),
            "safetyRatings": _SAFETY,
            "groundingMetadata": grounding,
            "citationMetadata": Derived(of="content", shape=OTHER),
            "logprobsResult": Derived(of="content"),
            "urlContextMetadata": Object(
                kind="other", members={"urlMetadata": Object(kind="other", members=words("urlRetrievalStatus"))}
            ),
        },
        place=place,
        ends={"finishReason": ("",)},
    )


def _make_response(part: Shape, place: str) -> Object:
    return Object(
        kind="other",
        members={
            **words("modelVersion", "responseId", "createTime"),
            "candidates": _make_candidate(part, place),
            "promptFeedback": Object(kind="other", members={**words("blockReason"), "safetyRatings": _SAFETY}),
            "usageMetadata": Object(kind="other", members=USAGE.members, others=USAGE),
            "error": ERROR,
        },
        ends={"error": ("/",)},
    )


GENERATE: Final = TextMap(
    request=_REQUEST, response=_make_response(_PART, ""), event=_make_response(_PIECE, "candidates.{index}")
)
COUNT: Final = TextMap(request=_REQUEST, response=Object(kind="other", others=USAGE))
_EMBED_CONFIG: Final = words("taskType", "model")
EMBEDDINGS: Final = TextMap(
    request=Object(
        kind="other",
        members=both_spellings(
            {
                **_EMBED_CONFIG,
                "content": _USER_CONTENT,
                "embedContentConfig": Object(kind="other", members=both_spellings(_EMBED_CONFIG)),
                "requests": Object(
                    kind="other",
                    members=both_spellings(
                        {
                            **_EMBED_CONFIG,
                            "content": _USER_CONTENT,
                            "embedContentConfig": Object(kind="other", members=both_spellings(_EMBED_CONFIG)),
                        }
                    ),
                ),
            }
        ),
    ),
    response=Object(kind="other"),
)

_TOOL_STEPS: Final = (
    "function", "code_execution", "google_search", "url_context", "file_search", "mcp_server_tool", "google_maps",
    "retrieval", "tool_search", "processing",
)  # fmt: skip
_STEP_KINDS: Final[dict[str, TextKind]] = {
    "user_input": "user",
    "model_output": "assistant",
    "thought": "reasoning",
    **dict.fromkeys((f"{name}_call" for name in _TOOL_STEPS), "tool_call"),
    **dict.fromkeys((f"{name}_result" for name in _TOOL_STEPS), "tool_result"),
}
_ANNOTATION: Final = Object(
    kind="other",
    members={
        **words("type"),
        **dict.fromkeys(("start_index", "end_index"), Derived(of="^^text", empty=None)),
    },
)
_STEP: Final = Object(kinds={"role": ROLES, "type": _STEP_KINDS}, others=TEXT)
_STEP.members.update(
    {
        **words(
            "type", "role", "id", "call_id", "name", "status", "mime_type", "language", "resolution", "server_name"
        ),
        "text": TEXT,
        "data": MEDIA,
        "uri": OTHER,
        "signature": DATA,
        "arguments": JsonText(kind="tool_call"),
        "result": Text(kind="tool_result"),
        "annotations": _ANNOTATION,
        "error": ERROR,
        "content": _STEP,
        "summary": _STEP,
    }
)
_INTERACTION_MEMBERS: Final[dict[str, Shape]] = {
    **words("id", "object", "status", "model", "agent", "role", "created", "updated", "environment_id", "service_tier"),
    **words(
        "previous_interaction_id", "cached_content", "response_mime_type", "response_modalities", "continuation_ids"
    ),
    "continuation_token": DATA,
    "input": Object(members=_STEP.members, kinds=_STEP.kinds, kind="user", others=TEXT),
    "system_instruction": Text(kind="system"),
    "steps": _STEP,
    "outputs": Object(members=_STEP.members, kinds=_STEP.kinds, kind="assistant", others=TEXT),
    "output_text": Text(kind="assistant"),
    **dict.fromkeys(("output_audio", "output_image", "output_video"), _STEP),
    "tools": Object(kind="other", members={**words("type", "name"), "parameters": SCHEMA}),
    "response_format": Object(kind="other", members={**words("type", "mime_type"), "schema": SCHEMA}),
    "generation_config": _CONFIG,
    "safety_settings": _SAFETY,
    "usage": USAGE,
    "error": ERROR,
    "errors": ERROR,
}
_INTERACTION: Final = Object(kind="other", members=_INTERACTION_MEMBERS)
_STEP_DELTA: Final = Object(
    kind="assistant",
    others=TEXT,
    kinds={"type": {**_STEP_KINDS, "thought_summary": "reasoning"}},
    members={
        **_STEP.members,
        "text": Text(kind="assistant", delta=True, place="content.0.text"),
        "arguments": JsonText(kind="tool_call", delta=True),
        "content": Object(
            kind="reasoning",
            members={**_STEP.members, "text": Text(delta=True, place="^summary.0.text")},
            others=TEXT,
        ),
    },
    place="steps.{index}",
    ends={"signature": ("",)},
)
_SSE: Final = {
    **words("event_type", "event_id", "interaction_id", "status"),
    "error": ERROR,
    "usage": USAGE,
    "step_usage": USAGE,
}
_INTERACTION_EVENTS: Final = Events(
    name="event_type",
    shapes={
        "step.start": Object(kind="other", members={**_SSE, "step": at_place(_STEP, "steps.{index}")}),
        "step.delta": Object(kind="other", members={**_SSE, "delta": _STEP_DELTA}),
        "step.stop": Object(kind="other", members=_SSE, place="steps.{index}", ends={"index": ("",)}),
        "interaction.completed": Object(
            kind="other", members={**_SSE, "interaction": at_place(_INTERACTION, "/")}, ends={"interaction": ("/",)}
        ),
    },
    other=Object(kind="other", members={**_SSE, "interaction": at_place(_INTERACTION, "/")}, ends={"error": ("/",)}),
)
INTERACTIONS: Final = TextMap(request=_INTERACTION, response=_INTERACTION, event=_INTERACTION_EVENTS)
