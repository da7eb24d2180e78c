"""The body of ``POST /v1beta/interactions``, and the texts of interactions. Most members are left to the upstream.

A request, a response and the event with a whole interaction have one shape.

Source: google-genai 3.4, _gaos/types/interactions: createmodelinteraction, environment, envvar, allowlistentry, source,
imagecontent, filesearch, interaction and interactionsseevent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.codec.fields import (
    Array,
    BodySchema,
    Boolean,
    Object,
    Reference,
    String,
    Unchecked,
    check,
    get_schema,
    make_reference_reader,
    make_shape,
)
from tornado_gate.types import Call, ObjectReference, WireRequest, text_maps
from tornado_gate.types.text_maps import (
    DATA,
    MEDIA,
    OTHER,
    TEXT,
    WORD,
    Derived,
    Events,
    JsonText,
    Shape,
    Text,
    TextMap,
    at_place,
    words,
)
from tornado_gate.types.texts import TextKind
from tornado_gate.types.value import replace
from tornado_gate.wire.text_shapes import ERROR, ROLES, SCHEMA, USAGE
from tornado_gate_gemini.fields.content import is_file_id
from tornado_gate_gemini.fields.generate import SafetySettingSchema
from tornado_gate_gemini.fields.generation_config import GenerationConfigSchema

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
_ANNOTATION: Final = text_maps.Object(
    kind="other",
    members={
        **words("type"),
        **dict.fromkeys(("start_index", "end_index"), Derived(of="^^text", empty=None)),
    },
)
_FILE: Final = Reference(kind="file", is_id=is_file_id)


class StepSchema(BodySchema):
    """A step of an interaction, or a part of its content."""

    texts = text_maps.Object(
        kinds={"role": ROLES, "type": _STEP_KINDS},
        others=TEXT,
        members={
            **words("role", "id", "call_id", "name", "status", "language", "resolution", "server_name"),
            "error": ERROR,
        },
    )

    type = Unchecked(text=WORD)
    text = Unchecked(text=TEXT)
    data = Unchecked(text=MEDIA)
    mime_type = Unchecked(text=WORD)
    uri = Unchecked(text=OTHER, refers=_FILE)
    gcs_uri = Unchecked(refers=_FILE)
    signature = Unchecked(text=DATA)
    arguments = Unchecked(text=JsonText(kind="tool_call"), opaque=True)
    result = Unchecked(text=Text(kind="tool_result"))
    annotations = Unchecked(text=_ANNOTATION)
    content = Unchecked(lambda: Object(StepSchema))
    summary = Unchecked(lambda: Object(StepSchema))


_STEP: Final = make_shape(StepSchema)
assert isinstance(_STEP, text_maps.Object)


_INPUT: Final = replace(_STEP, kind="user")
_OUTPUTS: Final = replace(_STEP, kind="assistant")


class InteractionToolSchema(BodySchema):
    """A function of the caller, or a tool of the vendor."""

    texts = text_maps.Object(kind="other")

    type = Unchecked(text=WORD)
    name = Unchecked(text=WORD)
    parameters = Unchecked(text=SCHEMA, opaque=True)
    file_search_store_names = Unchecked(refers=Reference(kind="vector_store"))


class ResponseFormatSchema(BodySchema):
    texts = text_maps.Object(kind="other")

    type = Unchecked(text=WORD)
    mime_type = Unchecked(text=WORD)
    schema = Unchecked(text=SCHEMA, opaque=True)


class EnvironmentSchema(BodySchema):
    """The sandbox of an interaction: its files, and the credentials of its tools."""

    environment_id = Unchecked(refers=Reference(kind="environment"))
    credential = Unchecked(refers=Reference(kind="credential"))
    source = Unchecked(refers=_FILE)


class InteractionBodySchema(BodySchema):
    """The members that the gateway reads. All others are left to the upstream."""

    texts = text_maps.Object(
        kind="other",
        members={
            **words("id", "object", "status", "role", "created", "updated", "continuation_ids"),
            "continuation_token": DATA,
            "steps": _STEP,
            "outputs": _OUTPUTS,
            "output_text": Text(kind="assistant"),
            **dict.fromkeys(("output_audio", "output_image", "output_video"), _STEP),
            "usage": USAGE,
            "error": ERROR,
            "errors": ERROR,
        },
    )
    finds_all_references = True

    model = String(required=True, text=WORD)
    stream = Boolean(allow_none=True)
    store = Boolean(allow_none=True)
    background = Boolean(allow_none=True)
    previous_interaction_id = String(allow_none=True, text=WORD, refers=Reference(kind="interaction"))
    agent = Unchecked(text=WORD)
    input = Unchecked(lambda: Array(Object(StepSchema)), text=_INPUT)
    system_instruction = Unchecked(text=Text(kind="system"))
    tools = Unchecked(lambda: Array(Object(InteractionToolSchema)))
    response_format = Unchecked(lambda: Object(ResponseFormatSchema), opaque=True)
    generation_config = Unchecked(lambda: Object(GenerationConfigSchema))
    safety_settings = Unchecked(lambda: Array(Object(SafetySettingSchema)))
    environment = Unchecked(lambda: Object(EnvironmentSchema), refers=Reference(kind="environment"))
    environment_id = Unchecked(text=WORD, refers=Reference(kind="environment"))
    cached_content = Unchecked(text=WORD, refers=Reference(kind="cache"))
    service_tier = Unchecked(text=WORD)
    response_mime_type = Unchecked(text=WORD)
    response_modalities = Unchecked(text=WORD)


_SCHEMA: Final = get_schema(InteractionBodySchema)
_read_references: Final = make_reference_reader(InteractionBodySchema)
_INTERACTION: Final = make_shape(InteractionBodySchema)
_STEP_DELTA: Final = text_maps.Object(
    kind="assistant",
    others=TEXT,
    kinds={"type": {**_STEP_KINDS, "thought_summary": "reasoning"}},
    members={
        **_STEP.members,
        "text": Text(kind="assistant", delta=True, place="content.0.text"),
        "arguments": JsonText(kind="tool_call", delta=True),
        "content": text_maps.Object(
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
_WHOLE: Final[dict[str, Shape]] = {**_SSE, "interaction": at_place(_INTERACTION, "/")}
_EVENTS: Final = Events(
    name="event_type",
    shapes={
        "step.start": text_maps.Object(kind="other", members={**_SSE, "step": at_place(_STEP, "steps.{index}")}),
        "step.delta": text_maps.Object(kind="other", members={**_SSE, "delta": _STEP_DELTA}),
        "step.stop": text_maps.Object(kind="other", members=_SSE, place="steps.{index}", ends={"index": ("",)}),
        "interaction.completed": text_maps.Object(kind="other", members=_WHOLE, ends={"interaction": ("/",)}),
    },
    other=text_maps.Object(kind="other", members=_WHOLE, ends={"error": ("/",)}),
)
INTERACTIONS: Final = TextMap(request=_INTERACTION, response=_INTERACTION, event=_EVENTS)


def list_interaction_references(call: Call, wire: WireRequest) -> list[ObjectReference]:
    """Return the references in the body of a new interaction."""
    return _read_references(wire.json)


def check_interaction(body: Mapping[str, Any]) -> None:
    """Raise InvalidField for the first member with a value of a wrong type."""
    check(_SCHEMA, body)
