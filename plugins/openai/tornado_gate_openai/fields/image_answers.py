"""The routes of images: the texts of their bodies and responses, and their descriptions.

Addresses of images in responses are no texts, because the gateway signs them. Files of a form are not reviewed.
Source: openai-python 3.52, types/images_response.py, image_gen_stream_event.py and image_edit_stream_event.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tornado_gate.codec.fields import make_body_shape, make_reference_reader
from tornado_gate.types import Call, JsonSchema, ObjectReference, RouteDescription, RouteExample, WireRequest
from tornado_gate.types.text_maps import DATA, Object, Shape, Text, TextMap, words
from tornado_gate.wire.text_shapes import ERROR, USAGE
from tornado_gate_openai.fields import json_schemas
from tornado_gate_openai.fields.image_inputs import EditInputBodySchema, InputBodySchema
from tornado_gate_openai.fields.images import (
    IMAGE_WORDS,
    EditBodySchema,
    EditFormSchema,
    GenerationBodySchema,
    VariationFormSchema,
)
from tornado_gate_openai.fields.json_schemas import COUNT, PNG, TEXT, make_object

_IMAGE: Final[dict[str, Shape]] = {
    **IMAGE_WORDS,
    **words("url", "type", "object", "event_id"),
    "b64_json": DATA,
    "revised_prompt": Text(kind="assistant"),
    "usage": USAGE,
    "error": ERROR,
}
_RESPONSE: Final = Object(kind="other", members={**_IMAGE, "data": Object(kind="other", members=_IMAGE)})
_EVENT: Final = Object(kind="other", members=_IMAGE, ends={"error": ("/",)})


def _make_map(request: Shape) -> TextMap:
    return TextMap(request=request, response=_RESPONSE, event=_EVENT)


GENERATIONS: Final = _make_map(make_body_shape(GenerationBodySchema, InputBodySchema))
EDITS: Final = _make_map(make_body_shape(EditBodySchema, EditInputBodySchema))
"""Also of variations: the text fields of a form have the names of the members of a body."""

_read_references: Final = make_reference_reader(EditBodySchema)


def list_edit_references(call: Call, wire: WireRequest) -> list[ObjectReference]:
    """Return the files that the JSON body of ``POST /v1/images/edits`` names."""
    return _read_references(wire.json)


_IMAGES: Final[JsonSchema] = make_object(
    ("created", "data"),
    created=COUNT,
    data={"type": "array", "items": make_object(url=TEXT, b64_json=TEXT, revised_prompt=TEXT)},
    usage=json_schemas.USAGE,
)
_PROMPT_STYLE: Final = "The body may also have `input` and `parameters` in place of `prompt` and its options."
_EVENTS: Final[Mapping[str, str]] = {"text/event-stream": 'data: {"type": "image_generation.completed", …}\n\n'}
_FORM_EXAMPLE: Final = RouteExample(
    name="form", summary="A form", fields={"prompt": "Make it blue."}, files={"image": "image.png"}
)

ROUTES: Final[Mapping[str, RouteDescription]] = {
    "POST /v1/images/generations": RouteDescription(
        summary="Create images",
        description=_PROMPT_STYLE,
        tag="images",
        body=(GenerationBodySchema, InputBodySchema),
        answer=_IMAGES,
        media_types=_EVENTS,
        examples=(
            RouteExample(name="prompt", summary="A prompt", body={"prompt": "A red square."}),
            RouteExample(
                name="data", summary="As data", body={"prompt": "A red square.", "n": 1, "response_format": "b64_json"}
            ),
            RouteExample(
                name="input",
                summary="With `input` and `parameters`",
                body={"input": {"messages": [{"role": "user", "content": [{"text": "A red square."}]}]}},
            ),
        ),
    ),
    "POST /v1/images/edits": RouteDescription(
        summary="Edit images",
        description=_PROMPT_STYLE,
        tag="images",
        body=(EditBodySchema, EditInputBodySchema),
        form=EditFormSchema(exclude=("svg",)),
        answer=_IMAGES,
        media_types=_EVENTS,
        examples=(
            _FORM_EXAMPLE,
            RouteExample(
                name="json",
                summary="An address",
                body={"prompt": "Make it blue.", "images": [{"image_url": PNG}]},
            ),
        ),
    ),
    "POST /v1/images/variations": RouteDescription(
        summary="Create variations of an image",
        tag="images",
        form=VariationFormSchema,
        answer=_IMAGES,
        examples=(
            RouteExample(
                name="form", summary="A form", files={"image": "image.png"}, needs="a model that makes variations"
            ),
        ),
    ),
}
"""The descriptions by method and path."""
