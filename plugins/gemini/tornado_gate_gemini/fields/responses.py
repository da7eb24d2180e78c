"""Texts of responses and of the events of streams: parts are those of requests (`content`).

In a stream, the text parts of a candidate are one text up to a part of another type, and thoughts are another.
Positions of citations and of grounding supports are in bytes: both are left out of an answer of which a text was
replaced before them. Source: google-genai 3.4, types.py.
"""

from __future__ import annotations

from typing import Final

from tornado_gate.codec.fields import make_shape
from tornado_gate.types.text_maps import DATA, OTHER, Derived, Events, Object, Shape, Text, TextMap, words
from tornado_gate.wire.text_shapes import ERROR, USAGE
from tornado_gate_gemini.fields.content import list_part_members, make_parts_shape
from tornado_gate_gemini.fields.generate import COUNT_REQUEST, REQUEST, SafetySettingSchema

_OTHER_PARTS: Final = (
    "functionCall",
    "functionResponse",
    "inlineData",
    "fileData",
    "executableCode",
    "codeExecutionResult",
)
_STREAMED: Final[dict[str, Shape]] = {**list_part_members(), "text": Text(delta=True)}
_TEXTS_END: Final = dict.fromkeys(_OTHER_PARTS, ("^",))
_PIECE: Final = Events(
    shapes={True: Object(members=_STREAMED, kind="reasoning", place="parts.thought", ends=_TEXTS_END)},
    other=Object(members=_STREAMED, place="parts.text", ends={**_TEXTS_END, "text": ("^thought",)}),
    name="thought",
)
_SAFETY: Final = make_shape(SafetySettingSchema)


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
    request=REQUEST, response=_make_response(make_parts_shape(), ""), event=_make_response(_PIECE, "candidates.{index}")
)
COUNT: Final = TextMap(request=COUNT_REQUEST, response=Object(kind="other", others=USAGE))
