"""``tools`` and ``toolConfig``. Tools of unknown kinds are accepted: the upstream may support them.

Source: google-genai 3.4, types.Tool, FunctionDeclaration, FunctionCallingConfig and FileSearch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from marshmallow import ValidationError

from tornado_gate.codec.checks import refuse_value
from tornado_gate.codec.fields import Array, Boolean, Object, Reference, String, Unchecked, describe_type
from tornado_gate.codec.value_limits import are_left_to_upstream
from tornado_gate.types import text_maps
from tornado_gate.types.text_maps import WORD
from tornado_gate.wire.text_shapes import SCHEMA
from tornado_gate_gemini.fields.content import NOT_NULL
from tornado_gate_gemini.fields.spellings import GeminiSchema

MAX_FUNCTIONS: Final = 512
_NAME_PATTERN: Final = re.compile(r"[a-zA-Z0-9_.:-]{1,128}")
_CALLING_MODES: Final = ("MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED")


def _check_name(function: Mapping[str, Any]) -> None:
    name = function.get("name")
    if type(name) is str and _NAME_PATTERN.fullmatch(name) is None and not are_left_to_upstream():
        raise ValidationError({"name": ["must have 1 to 128 letters, digits, '_', '-', '.' or ':'"]})


def _need_one_schema(function: Mapping[str, Any]) -> None:
    if function.get("parameters") is not None and function.get("parametersJsonSchema") is not None:
        message = "cannot be combined with 'parameters'; send one of them"
        raise ValidationError({"parametersJsonSchema": [message]})


class FunctionSchema(GeminiSchema):
    """A function of the caller."""

    texts = text_maps.Object(kind="other")
    object_rules = (_check_name, _need_one_schema)

    name = String(required=True, text=WORD)
    description = String(allow_none=True, example="my-description")
    parameters = Object(allow_none=True, text=SCHEMA, opaque=True, description="The schema of its arguments.")
    parametersJsonSchema = Object(
        allow_none=True, text=SCHEMA, opaque=True, description="The JSON schema of its arguments."
    )
    response = Unchecked(
        text=SCHEMA, opaque=True, example={"type": "OBJECT", "properties": {"city": {"type": "STRING"}}}
    )
    responseJsonSchema = Unchecked(text=SCHEMA, opaque=True, example={"type": "object"})
    behavior = Unchecked(text=WORD, example="NON_BLOCKING")


class FileSearchSchema(GeminiSchema):
    fileSearchStoreNames = Unchecked(refers=Reference(kind="vector_store"))


def _need_objects(tool: Mapping[str, Any]) -> None:
    """Check the tools of the vendor, of whatever name."""
    for name, value in tool.items():
        if value is not None and type(value) is not dict and type(value) is not list and name != "functionDeclarations":
            raise ValidationError({name: [f"must be an object, not {describe_type(value)}"]})


class ToolSchema(GeminiSchema):
    texts = text_maps.Object(kind="other")
    object_rules = (_need_objects,)

    functionDeclarations = Array(Object(FunctionSchema, error_messages=NOT_NULL), allow_none=True)
    fileSearch = Unchecked(lambda: Object(FileSearchSchema))


TOOLS: Final = Array(
    Object(ToolSchema, error_messages=NOT_NULL),
    allow_none=True,
    description="Functions that the model may call, and the vendor's own tools.",
)


def check_function_count(body: Mapping[str, Any]) -> None:
    """Raise InvalidField for too many functions in the tools of a body."""
    count = sum(len(tool.get("functionDeclarations") or ()) for tool in body.get("tools") or ())
    if count > MAX_FUNCTIONS:
        refuse_value("tools", f"has {count} functions; at most {MAX_FUNCTIONS} are allowed")


class _FunctionCallingSchema(GeminiSchema):
    mode = String(choices=_CALLING_MODES, allow_none=True, text=WORD)
    allowedFunctionNames = Array(String(), allow_none=True, text=WORD)
    streamFunctionCallArguments = Boolean(allow_none=True)


class ToolConfigSchema(GeminiSchema):
    """``toolConfig``."""

    functionCallingConfig = Object(_FunctionCallingSchema, allow_none=True)
    retrievalConfig = Object(allow_none=True, example={"languageCode": "my-language"})
    includeServerSideToolInvocations = Unchecked(example=True)
