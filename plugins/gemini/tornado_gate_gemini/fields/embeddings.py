"""The bodies of ``:embedContent`` and ``:batchEmbedContents``.

The vendor accepts 100 contents in one request. The gateway accepts more, because the core splits them into several requests.

Source: https://ai.google.dev/api/embeddings; google-genai 3.4, types.EmbedContentConfig.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.codec.fields import Array, Boolean, Integer, Object, String, check, get_schema, make_shape
from tornado_gate.types import text_maps
from tornado_gate.types.text_maps import WORD, TextMap
from tornado_gate_gemini.fields.content import MISSING, NOT_NULL, ContentSchema
from tornado_gate_gemini.fields.spellings import GeminiSchema, check_with_caller_paths

MAX_REQUESTS: Final = 2048


class EmbedConfigSchema(GeminiSchema):
    texts = text_maps.Object(kind="other", members={"model": WORD})

    taskType = String(allow_none=True, text=WORD)
    title = String(allow_none=True)
    outputDimensionality = Integer(least=1, allow_none=True)
    autoTruncate = Boolean(allow_none=True)


class EmbedBodySchema(EmbedConfigSchema):
    """The body of ``:embedContent``."""

    content = Object(ContentSchema, required=True, error_messages=MISSING)
    model = String(allow_none=True, text=WORD)
    embedContentConfig = Object(EmbedConfigSchema, allow_none=True)


class EmbedBatchSchema(GeminiSchema):
    """The body of ``:batchEmbedContents``."""

    requests = Array(
        Object(EmbedBodySchema, error_messages=NOT_NULL),
        least=1,
        most=MAX_REQUESTS,
        required=True,
        error_messages=MISSING,
    )


class _EitherSchema(EmbedBodySchema, EmbedBatchSchema):
    """Members of both methods, which a caller may confuse: guards read each in each of them."""


EMBEDDINGS: Final = TextMap(request=make_shape(_EitherSchema), response=text_maps.Object(kind="other"))


def check_embedding(body: Mapping[str, Any], *, batch: bool) -> None:
    """Raise InvalidField for the first invalid member of a body."""
    schema = get_schema(EmbedBatchSchema if batch else EmbedBodySchema)
    check_with_caller_paths(body, lambda converted: check(schema, converted))
