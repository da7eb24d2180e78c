"""The fields of ``POST /v1/embeddings``, ``:embedContent`` and ``:batchEmbedContents``.

Source: openai-python 3.52, types/embedding_create_params.py; google-genai 3.4, types.EmbedContentConfig, and models.py
(_EmbedContentParametersPrivate_to_mldev), which defines the place of each in the body.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from qa.matrix.fields import MODEL, PICTURE, UNKNOWN, Field, Group, Idle, answer_only, anyway, put, row

BASE: Final[dict[str, Any]] = {"model": MODEL, "input": "Hello"}
CONTENT: Final[dict[str, Any]] = {"content": {"parts": [{"text": "Hello"}]}}
BATCH: Final[dict[str, Any]] = {"requests": [{"model": f"models/{MODEL}", **CONTENT}]}
NESTED: Final = {**CONTENT, "embedContentConfig": {"taskType": "RETRIEVAL_DOCUMENT"}}

_WRITTEN: Final = answer_only(
    "every upstream is asked for what is quickest to read; the gateway writes what was asked for"
)
_NO_SPEAKER: Final = anyway("what is embedded has no speaker", "openai", "local")

plain, content, batch = (partial(row, base) for base in (BASE, CONTENT, BATCH))

GROUPS: Final = (
    Group(
        "What is embedded",
        (
            plain("input", "mark-hello", "a string", instead="Hello"),
            plain("input", ["mark-one", "mark-two"], "several", instead="Hello"),
            plain("input", [1, 2, 3], "tokens", instead="Hello"),
            plain("input", [[1, 2], [3]], "several of tokens", instead="Hello"),
        ),
    ),
    Group(
        "The vectors",
        (
            plain("dimensions", 64),
            plain("encoding_format", "float", "float", idle=_WRITTEN),
            plain("encoding_format", "base64", "base64", idle=_WRITTEN),
        ),
    ),
    Group("Beside them", (plain("user", "mark-user"), plain(UNKNOWN, "mark-new"))),
)


def _settings(prefix: str, base: dict[str, Any]) -> tuple[Field, ...]:
    """The settings of one content, whose place in the body is `prefix`."""

    def at(name: str, value: Any, kind: str = "", *, instead: Any = None, idle: Idle | None = None) -> Field:
        members = {} if instead is None else {"instead": instead}
        return row(base, prefix + name, value, kind, idle=idle, **members)

    return (
        at("content.parts.0.text", "mark-hello", instead="Hello"),
        at("content.parts.1", {"text": "mark-more"}, "text"),
        at("content.parts.1", {"inlineData": {"mimeType": "image/png", "data": PICTURE}}, "inlineData"),
        at("content.role", "user", idle=_NO_SPEAKER),
        at("taskType", "RETRIEVAL_QUERY"),
        at("title", "mark-title"),
        at("outputDimensionality", 64),
        at("autoTruncate", True),
        at("mimeType", "mark-type"),
        at("documentOcr", True),
        at("audioTrackExtraction", True),
        at(UNKNOWN, "mark-new"),
    )


CONTENT_GROUPS: Final = (
    Group("Beside the content", _settings("", CONTENT)),
    Group(
        "In embedContentConfig",
        (
            row(NESTED, "embedContentConfig.taskType", "RETRIEVAL_QUERY", instead="RETRIEVAL_DOCUMENT"),
            row(NESTED, "embedContentConfig.title", "mark-title"),
            row(NESTED, "embedContentConfig.outputDimensionality", 64),
            row(NESTED, "embedContentConfig.autoTruncate", True),
        ),
    ),
)

BATCH_GROUPS: Final = (
    Group(
        "The batch",
        (
            batch("requests.1", {"model": f"models/{MODEL}", "content": {"parts": [{"text": "mark-more"}]}}),
            batch(UNKNOWN, "mark-new"),
        ),
    ),
    Group("In each request", _settings("requests.0.", BATCH)),
    Group(
        "In one of several requests",
        (
            row(put(BATCH, "requests.1", CONTENT), "requests.1.taskType", "RETRIEVAL_QUERY", "unlike the first"),
            row(put(BATCH, "requests.1", CONTENT), "requests.1.title", "mark-title", "unlike the first"),
            row(put(BATCH, "requests.1", CONTENT), "requests.1.outputDimensionality", 64, "unlike the first"),
            row(put(BATCH, "requests.1", CONTENT), "requests.1.autoTruncate", True, "unlike the first"),
        ),
    ),
)
