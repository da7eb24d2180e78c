"""The bodies of ``:generateContent``, ``:streamGenerateContent`` and ``:countTokens``.

Values are not converted, unknown members are accepted, and null means "not set".

Source: google-genai 3.4, types.GenerateContentConfig and its `cached_content`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from marshmallow import ValidationError

from tornado_gate.codec.checks import need_object
from tornado_gate.codec.fields import (
    Array,
    Boolean,
    Object,
    Reference,
    String,
    Unchecked,
    get_schema,
    make_check,
    make_request_reference_reader,
    make_shape,
)
from tornado_gate.errors import InvalidField
from tornado_gate.types import text_maps
from tornado_gate.types.text_maps import WORD, words
from tornado_gate_gemini.fields.content import CONTENTS, SYSTEM
from tornado_gate_gemini.fields.generation_config import GenerationConfigSchema, check_config
from tornado_gate_gemini.fields.spellings import GeminiSchema, check_with_caller_paths, replace_path
from tornado_gate_gemini.fields.tools import TOOLS, ToolConfigSchema, check_function_count


class SafetySettingSchema(GeminiSchema):
    """A setting of a request, or a rating in a response."""

    texts = text_maps.Object(kind="other", members=words("probability", "severity", "type"))

    category = String(required=True, text=WORD)
    threshold = String(required=True, text=WORD)
    method = String(allow_none=True, text=WORD)


def _need_strings(labels: Mapping[str, Any]) -> None:
    for name, value in labels.items():
        if not isinstance(value, str):
            raise ValidationError({name: ["must be a string"]})


class LabelsSchema(GeminiSchema):
    """Strings by names that the caller chooses."""

    object_rules = (_need_strings,)


class GenerateBodySchema(GeminiSchema):
    """The body of ``:generateContent`` and ``:streamGenerateContent``."""

    texts = text_maps.Object(kind="other")
    rules = (check_function_count, check_config)
    finds_all_references = True

    contents = CONTENTS
    systemInstruction = SYSTEM
    generationConfig = Object(GenerationConfigSchema, allow_none=True, description="How the response is generated.")
    tools = TOOLS
    toolConfig = Object(ToolConfigSchema, allow_none=True)
    safetySettings = Array(
        Object(SafetySettingSchema),
        allow_none=True,
        example=[{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
    )
    cachedContent = String(allow_none=True, text=WORD, refers=Reference(kind="cache"))
    labels = Object(LabelsSchema, allow_none=True, example={"team": "my-team"})
    model = String(allow_none=True, text=WORD)
    serviceTier = String(allow_none=True, text=WORD, example="flex")
    store = Boolean(allow_none=True, example=True)
    modelArmorConfig = Unchecked(example={"promptTemplateName": "my-template"})
    outputConfig = Unchecked(example={"outputUriPrefix": "my-prefix"})


class CountBodySchema(GenerateBodySchema):
    """The body of ``:countTokens``: contents, or a body of ``:generateContent``."""

    contents = Array(CONTENTS.item, least=1, allow_none=True, description=CONTENTS.description)
    generateContentRequest = Unchecked(lambda: Object(GenerateBodySchema), description="Instead of `contents`.")


list_references: Final = make_request_reference_reader(CountBodySchema)
"""The references to files, cached contents and file search stores in a body."""
REQUEST: Final = make_shape(GenerateBodySchema)
COUNT_REQUEST: Final = make_shape(CountBodySchema)


def check_generate(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the body in camelCase. Raises InvalidField for the first member that is invalid or conflicts with another."""
    return check_with_caller_paths(body, _check_converted)


_check_converted: Final = make_check(get_schema(GenerateBodySchema))


def check_count(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the generate body inside a ``:countTokens`` body, unchanged. Raises InvalidField as `check_generate` does."""
    names = [name for name in ("generateContentRequest", "generate_content_request") if body.get(name) is not None]
    if not names:
        check_generate(body)
        return body
    name = names[0]
    if body.get("contents") is not None:
        raise InvalidField(name, f"'{name}' cannot be combined with 'contents'. Send one of them.")
    inner = need_object(body[name], name)
    try:
        check_generate(inner)
    except InvalidField as error:
        raise replace_path(error, f"{name}.{error.param}") from None
    return inner
