"""The two dialects of schemas: JSON schema, and the older subset of OpenAPI.

Source: google-genai 3.4, types.GenerateContentConfig.response_json_schema (supported keywords, references) and types.Schema.
Messages: cline/cline#7339 ("items: missing field"), google-gemini/gemini-cli#2031 (values of an enum are strings),
anomalyco/opencode#12295 ("If a schema node has $ref set, then only description and default can be set alongside it").
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from qa.imitations.gemini.refusal import refuse

_BESIDE_REFERENCE: Final = ("$ref", "$defs", "description", "default")


def check_json_schema(schema: Any, path: str) -> None:
    """Raise `Refusal` for a JSON schema that the vendor does not accept."""
    if not isinstance(schema, dict):
        refuse(f"{path}: must be an object")
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        refuse(f"{path}: invalid JSON schema: {error.message}")
    _check_references(schema, schema, path)


def _check_references(value: Any, root: Mapping[str, Any], path: str) -> None:
    if isinstance(value, list):
        for number, item in enumerate(value):
            _check_references(item, root, f"{path}[{number}]")
    if not isinstance(value, dict):
        return
    reference = value.get("$ref")
    if isinstance(reference, str):
        if any(name not in _BESIDE_REFERENCE for name in value):
            refuse(f"{path}: If a schema node has $ref set, then only description and default can be set alongside it.")
        target: Any = root
        for step in reference.removeprefix("#/").split("/"):
            target = target.get(step) if isinstance(target, dict) else None
        if not reference.startswith("#/") or target is None:
            refuse(f"{path}: reference to undefined schema at {reference}")
    for name, member in value.items():
        if name not in ("enum", "const", "default", "examples"):
            _check_references(member, root, f"{path}.{name}")


def check_schema(schema: Mapping[str, Any], path: str) -> None:
    """Raise `Refusal` for a schema of the OpenAPI subset that the vendor does not accept."""
    kind = str(schema.get("type", "")).upper()
    if kind == "ARRAY" and not schema.get("items"):
        refuse(f"* GenerateContentRequest.{path}.items: missing field.")
    if schema.get("enum") and kind not in ("STRING", ""):
        refuse(f"* GenerateContentRequest.{path}.enum: only allowed for STRING type")
    names = schema.get("properties") or {}
    for name in schema.get("required") or ():
        if name not in names:
            refuse(f"* GenerateContentRequest.{path}.required[0]: property is not defined")
    for name, inner in names.items():
        check_schema(inner, f"{path}.properties[{name}]")
    if schema.get("items"):
        check_schema(schema["items"], f"{path}.items")
    for number, inner in enumerate(schema.get("anyOf") or ()):
        check_schema(inner, f"{path}.any_of[{number}]")
