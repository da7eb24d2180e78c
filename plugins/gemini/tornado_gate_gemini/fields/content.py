"""Contents and their parts, in requests and responses.

Unknown members and parts of unknown kinds are accepted: the upstream may support them.

Source: google-genai 3.4, types.Content and Part; types.FileData for the references.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Final, Literal

from marshmallow import ValidationError
from msgspec import Meta, Struct

from tornado_gate.codec.fields import (
    Array,
    Boolean,
    Declared,
    Object,
    OneOf,
    Reference,
    String,
    Unchecked,
    describe_type,
    format_choices,
    get_schema,
    make_shape,
)
from tornado_gate.codec.fields.kinds import raise_faults
from tornado_gate.codec.value_limits import are_left_to_upstream
from tornado_gate.types import text_maps
from tornado_gate.types.text_maps import MEDIA, OTHER, TEXT, WORD, Data, Events, Shape, Text, words
from tornado_gate.wire.text_shapes import ROLES
from tornado_gate_gemini.fields.spellings import GeminiSchema

MAX_CONTENTS: Final = 10_000
OWN_SIGNATURE: Final = "b3BhcXVlOjE6"
"""The start of a ``thoughtSignature`` that the gateway makes of another vendor's: base64 of "opaque:1:"; that of JSON follows."""
DATA_KEYS: Final = (
    "text",
    "inlineData",
    "fileData",
    "functionCall",
    "functionResponse",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
)
"""The members that define the kind of a part; a part has exactly one."""
NOT_NULL: Final = {"null": "must be an object, not null"}
MISSING: Final = {"null": "is missing"}
"""Null is the same as no value, which the member needs."""
_DATA_KEY_SET: Final = frozenset(DATA_KEYS)
_CONTENT_ROLES: Final = ("user", "model", "function")


def is_file_id(uri: str) -> bool:
    """Return whether a file's address names an object of the upstream's account."""
    from tornado_gate_gemini.wire.generate import is_uploaded_file

    return is_uploaded_file(uri)


class BlobSchema(GeminiSchema):
    texts = text_maps.Object(others=TEXT)

    mimeType = String(required=True, text=WORD)
    data = String(required=True, text=MEDIA)
    displayName = String(allow_none=True, example="my-name")


class FileSchema(GeminiSchema):
    texts = text_maps.Object(kind="other")

    fileUri = String(required=True, refers=Reference(kind="file", is_id=is_file_id))
    mimeType = String(allow_none=True, text=WORD)
    displayName = String(allow_none=True)


class CallSchema(GeminiSchema):
    texts = text_maps.Object()

    name = String(required=True, text=WORD)
    id = String(allow_none=True, text=WORD)
    args = Object(
        allow_none=True, opaque=True, text=Text(kind="tool_call"), description="Data of the caller's function."
    )
    partialArgs = Unchecked(example=[{"jsonPath": "my-path"}])
    willContinue = Unchecked(example=True)


def _get_part_schema() -> type[PartSchema]:
    return PartSchema


PARTS: Final = Array(Object(_get_part_schema, error_messages=NOT_NULL))


@cache
def make_result_parts_shape() -> Shape:
    """Return the shape of the parts of a function's result: files."""
    return text_maps.Object(members=dict.fromkeys(("inlineData", "inline_data"), make_shape(BlobSchema)), others=TEXT)


class ResponseSchema(GeminiSchema):
    """The result of a function."""

    texts = text_maps.Object(kind="tool_result")

    name = String(required=True, text=WORD)
    id = String(allow_none=True, text=WORD)
    response = Object(allow_none=True, opaque=True, text=TEXT, description="Data of the caller's function.")
    parts = Array(PARTS.item, allow_none=True, text=make_result_parts_shape)
    scheduling = Unchecked(text=WORD, example="SILENT")
    willContinue = Unchecked(example=True)


class CodeSchema(GeminiSchema):
    texts = text_maps.Object(kind="tool_call", members=words("id"))

    language = String(allow_none=True, text=WORD)
    code = String(allow_none=True, text=TEXT)


class OutcomeSchema(GeminiSchema):
    """The output of executed code."""

    texts = text_maps.Object(kind="tool_result", members=words("id"))

    outcome = String(allow_none=True, text=WORD)
    output = String(allow_none=True, text=TEXT)


class ToolCallSchema(GeminiSchema):
    """A call of a tool of the vendor."""

    texts = text_maps.Object(kind="tool_call", others=TEXT)

    id = Unchecked(text=WORD)
    toolType = Unchecked(text=WORD)


class ToolResponseSchema(ToolCallSchema):
    """The result of a tool of the vendor."""

    texts = text_maps.Object(kind="tool_result", others=TEXT)


class _VideoMetadataSchema(GeminiSchema):
    startOffset = Unchecked(text=WORD)
    endOffset = Unchecked(text=WORD)


def _need_one_kind(part: Mapping[str, Any]) -> None:
    if len(part) == 1 and None not in part.values():
        return  # most parts
    keys = [name for name in part if name in _DATA_KEY_SET and part[name] is not None]
    if len(keys) > 1:
        raise ValidationError(f"must have only one of {format_choices(sorted(keys, key=DATA_KEYS.index))}")
    if not keys and not any(member is not None for member in part.values()):
        raise ValidationError(f"must have one of {format_choices(DATA_KEYS[:5])}")


class PartSchema(GeminiSchema):
    texts = text_maps.Object()
    object_rules = (_need_one_kind,)

    thought = Boolean(allow_none=True)
    thoughtSignature = String(allow_none=True, text=Data(json_after=OWN_SIGNATURE))
    text = String(allow_none=True, text=TEXT)
    inlineData = Object(BlobSchema, allow_none=True)
    fileData = Object(FileSchema, allow_none=True)
    functionCall = Object(CallSchema, allow_none=True)
    functionResponse = Object(ResponseSchema, allow_none=True)
    executableCode = Object(CodeSchema, allow_none=True)
    codeExecutionResult = Object(OutcomeSchema, allow_none=True)
    toolCall = Object(ToolCallSchema, allow_none=True)
    toolResponse = Object(ToolResponseSchema, allow_none=True)
    mediaResolution = Unchecked(
        text=text_maps.Object(kind="other", members=words("level"), string=WORD),
        example={"level": "MEDIA_RESOLUTION_LOW"},
    )
    videoMetadata = Unchecked(lambda: Object(_VideoMetadataSchema), example={"fps": 1})
    partMetadata = Unchecked(text=OTHER, example={"note": "my-note"})
    audioTranscription = Unchecked(example={"text": "my-words"})
    mediaProcessing = Unchecked(example={"mode": "my-mode"})
    speechMetadata = Unchecked(example={"note": "my-note"})
    documentMetadata = Unchecked(example={"note": "my-note"})
    spreadsheetMetadata = Unchecked(example={"note": "my-note"})
    audioMetadata = Unchecked(example={"note": "my-note"})


@cache
def make_parts_shape() -> Shape:
    """Return the shape of parts. Those that are marked as thoughts are of another kind."""
    members = list_part_members()
    return Events(
        shapes={True: text_maps.Object(members=members, kind="reasoning")},
        other=text_maps.Object(members=members),
        name="thought",
    )


def list_part_members() -> dict[str, Shape]:
    """Return the shapes of the members of parts."""
    shape = make_shape(PartSchema)
    assert isinstance(shape, text_maps.Object)
    return shape.members


class ContentSchema(GeminiSchema):
    """A content whose role is not checked."""

    texts = text_maps.Object(kind="user", kinds={"role": ROLES})

    role: Declared[Any] = Unchecked(text=WORD)
    parts = Array(PARTS.item, least=1, required=True, error_messages=MISSING, text=make_parts_shape)


def _need_known_role(content: Mapping[str, Any]) -> None:
    role = content.get("role")
    if role and type(role) is str and role not in _CONTENT_ROLES and not are_left_to_upstream():
        raise ValidationError({"role": [f"must be one of {format_choices(_CONTENT_ROLES)}, not '{role[:50]}'"]})


class TurnSchema(ContentSchema):
    """A turn of the conversation."""

    object_rules = (_need_known_role,)

    role = String(allow_none=True, text=WORD, description="`user` or `model`.")


class _PlainPart(Struct, forbid_unknown_fields=True, gc=False):
    text: str


class _PlainTurn(Struct, forbid_unknown_fields=True, gc=False):
    """A turn that is certainly valid: its parts are texts."""

    parts: Annotated[list[_PlainPart], Meta(min_length=1)]
    role: Literal["user", "model"] | None = None


CONTENTS: Final = Array(
    Object(TurnSchema, error_messages=NOT_NULL),
    plain_item=_PlainTurn,
    least=1,
    most=MAX_CONTENTS,
    required=True,
    description="The turns of the conversation.",
)


def _need_text(system: Mapping[str, Any]) -> None:
    """Check a system prompt that is a single part, and the type of ``parts``, of which the vendor names one."""
    parts = system.get("parts")
    if parts is None:
        if "text" not in system:
            raise ValidationError({"parts": ["is missing"]})
        raise_faults(get_schema(PartSchema), system)
    elif type(parts) is not list and type(parts) is not dict:
        raise ValidationError({"parts": [f"must be an array, not {describe_type(parts)}"]})


class SystemSchema(GeminiSchema):
    """A system prompt: SDKs send a content or a single part."""

    texts = text_maps.Object(kind="system")
    object_rules = (_need_text,)

    role = Unchecked(text=WORD)
    parts = OneOf(by_type={dict: PARTS.item, list: PARTS}, allow_none=True, text=make_parts_shape)


SYSTEM: Final = OneOf(
    by_type={dict: Object(SystemSchema), str: String()}, allow_none=True, description="The system prompt."
)
