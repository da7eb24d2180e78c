"""JSON schemas (draft 2020-12) from marshmallow schemas, by apispec. This module translates the strict fields of
`codec.fields`.

A schema is never stricter than the check of the gateway. If only a function checks the values of a member, the member
has no type, unless its field has `keywords`.
"""

from __future__ import annotations

import re
from typing import Any

from apispec import APISpec
from apispec.ext.marshmallow import MarshmallowPlugin
from marshmallow import Schema, fields, validate

from tornado_gate.codec.fields import (
    MAX_INTEGER,
    NO_EXAMPLE,
    Array,
    Boolean,
    Declared,
    File,
    FunctionField,
    Integer,
    Number,
    Object,
    OneOf,
    String,
    Unchecked,
    Variants,
)

OPENAPI_VERSION = "3.1.0"
JsonValue = dict[str, Any]
_UNSAFE = re.compile(r"[^A-Za-z0-9.\-]+")


class SchemaRegistry:
    """The schemas of one document. `components` are the schemas to which others refer, by name."""

    def __init__(self) -> None:
        plugin = MarshmallowPlugin(schema_name_resolver=self._choose_name)
        self._spec = APISpec(title="", version="", openapi_version=OPENAPI_VERSION, plugins=[plugin])
        self._names: dict[type[Schema], str] = {}
        converter: Any = plugin.converter  # its methods have no types
        self._converter = converter
        self._converter.add_attribute_function(_describe_field)

    @property
    def components(self) -> JsonValue:
        return dict(self._spec.components.schemas)

    def _choose_name(self, schema: Any) -> str:
        """Return ``format-acme.ChatBody`` for the class ``ChatBodySchema`` of ``tornado_gate_format_acme``."""
        kind = schema if isinstance(schema, type) else type(schema)
        if kind not in self._names:
            package = kind.__module__.partition(".")[0].removeprefix("tornado_gate").lstrip("_") or "gate"
            stem = _UNSAFE.sub("-", f"{package}.{kind.__name__.strip('_').removesuffix('Schema')}")
            taken = set(self._names.values())
            others = (f"{stem}{number}" for number in range(2, 1000))
            self._names[kind] = stem if stem not in taken else next(name for name in others if name not in taken)
        return self._names[kind]

    def add(self, name: str, schema: JsonValue) -> None:
        """Add a JSON schema to which others refer."""
        self._spec.components.schema(name, schema)

    def convert(self, schema: Any) -> JsonValue:
        """Return the JSON schema of a marshmallow schema, class or instance."""
        made: JsonValue = self._converter.schema2jsonschema(schema() if isinstance(schema, type) else schema)
        title = (schema if isinstance(schema, type) else type(schema)).__doc__
        return {"description": make_plain(title), **made} if title else made

    def convert_form(self, schema: Any) -> JsonValue:
        """Return the JSON schema of a form's fields: no field is null, and each form has the files that are needed."""
        made = self.convert(schema)
        declared = (schema() if isinstance(schema, type) else schema).fields.items()
        files = [name for name, field in declared if isinstance(field, File) and field.needed]
        properties = {name: _forbid_null(property) for name, property in made["properties"].items()}
        return {**made, "properties": properties, "required": sorted({*made.get("required", ()), *files})}


def make_plain(docstring: str) -> str:
    """Return a docstring as Markdown: its first paragraph on one line."""
    return " ".join(docstring.partition("\n\n")[0].split()).replace("``", "`")


def _describe_field(converter: Any, field: fields.Field[Any], ret: JsonValue, **_: Any) -> JsonValue:
    """Return the keywords of a field of `codec.fields`. apispec has described the fields of marshmallow itself."""
    described = _translate_field(converter, field)
    if described is None:
        return {}
    for name in ("type", "anyOf", "minLength", "maxLength", "pattern"):
        ret.pop(name, None)
    described |= _translate_validators(field)
    if isinstance(field, Declared):
        described |= field.keywords
    return _describe_member(field, _allow_null(described) if field.allow_none else described)


def _describe_member(field: fields.Field[Any], described: JsonValue) -> JsonValue:
    """Add the field's declared description and example."""
    if isinstance(field, Declared) and field.description:
        described = {"description": field.description, **described}
    if isinstance(field, Declared) and field.example is not NO_EXAMPLE:
        described = {**described, "examples": [field.example]}
    return described


def _translate_field(converter: Any, field: Any) -> JsonValue | None:
    match field:
        case String():
            schema: JsonValue = {"type": "string", "enum": list(field.choices)} if field.choices else {"type": "string"}
            if least := field.shortest or int(field.filled):
                schema["minLength"] = least
            return schema if field.longest is None else {**schema, "maxLength": field.longest}
        case Boolean():
            return {"type": "boolean"}
        case Integer():
            least = -MAX_INTEGER if field.least is None else int(field.least)
            most = MAX_INTEGER if field.most is None else int(field.most)
            bounds = {"minimum": least, "maximum": most}
            return {"type": "integer", **{k: v for k, v in bounds.items() if abs(v) != MAX_INTEGER}}
        case Number():
            limits = {"minimum": field.least, "maximum": field.most}
            return {"type": "number", **{name: value for name, value in limits.items() if value is not None}}
        case Object():
            return {"type": "object"} if field.schema is None else dict(converter.resolve_nested_schema(field.schema))
        case Array():
            lengths = {"minItems": field.least or None, "maxItems": field.most}
            items = converter.field2property(field.item)
            return {"type": "array", "items": items, **{k: v for k, v in lengths.items() if v is not None}}
        case OneOf():
            alternatives = [converter.field2property(alternative) for alternative in field.by_type.values()]
            return {
                "anyOf": [
                    alternative
                    for index, alternative in enumerate(alternatives)
                    if alternative not in alternatives[:index]
                ]
            }
        case Variants():
            return {"anyOf": _list_variants(converter, field)}
        case File() | FunctionField() | Unchecked():
            return {}
    return None


def _list_variants(converter: Any, field: Variants) -> list[JsonValue]:
    """Return the schemas of an object with variants. The last schema is for unknown words."""
    schemas = dict.fromkeys((*field.by.values(), field.of))
    return [dict(converter.resolve_nested_schema(schema)) for schema in schemas]


def _translate_validators(field: fields.Field[Any]) -> JsonValue:
    keywords: JsonValue = {}
    for validator in field.validators:
        if isinstance(validator, validate.Length) and isinstance(field, String):
            keywords |= {"minLength": validator.min} if validator.min is not None else {}
            keywords |= {"maxLength": validator.max} if validator.max is not None else {}
    return keywords


def _allow_null(schema: JsonValue) -> JsonValue:
    """Return `schema`, or null. A schema without a type has null among its values."""
    if "$ref" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    if "anyOf" in schema:
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    if "type" not in schema:
        return schema
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    nullable = {**schema, "type": [*kinds, "null"]}
    return {**nullable, "enum": [*schema["enum"], None]} if "enum" in schema else nullable


def _forbid_null(schema: JsonValue) -> JsonValue:
    """Return `schema` without the value null."""
    if "anyOf" in schema:
        alternatives = [alternative for alternative in schema["anyOf"] if alternative != {"type": "null"}]
        others = {name: value for name, value in schema.items() if name != "anyOf"}
        return {**others, **alternatives[0]} if len(alternatives) == 1 else {**schema, "anyOf": alternatives}
    if not isinstance(schema.get("type"), list):
        return schema
    kinds = [kind for kind in schema["type"] if kind != "null"]
    strict = {**schema, "type": kinds[0] if len(kinds) == 1 else kinds}
    return {**strict, "enum": [word for word in schema["enum"] if word is not None]} if "enum" in schema else strict
