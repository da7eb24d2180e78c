"""How much of a request the vendor can enforce: its limits for all schemas together. Pure.

Above a limit the vendor rejects the whole request. Tools keep their schemas and lose ``strict``, from the last one on. A
response format gets more required properties, with which a response still matches the caller's schema; with too many unions it
is left out. Each change is reported.

Source: platform.claude.com/docs/en/build-with-claude/structured-outputs, "Schema complexity limits" (read 2026-11-22).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tornado_gate.types import Call, ChatRequest
from tornado_gate.types.value import State

MOST_STRICT_TOOLS: Final = 20
MOST_OPTIONAL: Final = 24
MOST_UNIONS: Final = 16


class _Total(State):
    """The unused part of the limits."""

    tools: int = MOST_STRICT_TOOLS
    optional: int = MOST_OPTIONAL
    unions: int = MOST_UNIONS

    def take(self, schema: Any, tools: int = 0) -> bool:
        """Count a schema if it is within the limits."""
        optional = unions = 0
        for object_schema in _iterate_objects(schema):
            properties = object_schema.get("properties") or {}
            optional += len(properties.keys() - set(object_schema.get("required") or ()))
            unions += sum("anyOf" in inner or isinstance(inner.get("type"), list) for inner in properties.values())
        if tools > self.tools or optional > self.optional or unions > self.unions:
            return False
        self.tools, self.optional, self.unions = self.tools - tools, self.optional - optional, self.unions - unions
        return True


def fit_grammar(call: Call, request: ChatRequest, body: dict[str, Any]) -> None:
    """Reduce what `body`, the request of another format, enforces to the vendor's limits. Reports to `call.drop_field`."""
    response_format = (body.get("output_config") or {}).get("format")
    strict = [tool for tool in body.get("tools", ()) if tool.get("strict")]
    if response_format is None and not strict:
        return
    total = _Total()
    if response_format is not None:
        _fit_format(call, request, body, response_format["schema"], total)
    places = {tool.name: number for number, tool in enumerate(request.tools) if hasattr(tool, "name")}
    for tool in strict:
        if not total.take(tool["input_schema"], tools=1):
            del tool["strict"]
            call.drop_field(f"{request.field_name('tools')}.{places.get(tool['name'], 0)}.strict")


def _fit_format(call: Call, request: ChatRequest, body: dict[str, Any], schema: Any, total: _Total) -> None:
    name = request.field_name("response_format")
    if total.take(schema):
        return
    left = total.optional
    for object_schema in _iterate_objects(schema):
        required = list(object_schema.get("required") or ())
        known = set(required)  # a search in the list would take quadratic time
        optional = [member for member in object_schema.get("properties") or () if member not in known]
        if len(optional) > left:
            object_schema["required"] = required + optional[left:]
            call.drop_field(f"{request.member_name('response_format', 'schema')}.required")
        left = max(left - len(optional), 0)
    if total.take(schema):
        return
    call.drop_field(name)
    config = {member: value for member, value in body["output_config"].items() if member != "format"}
    if config:
        body["output_config"] = config
    else:
        del body["output_config"]


def _iterate_objects(schema: Any) -> Iterator[dict[str, Any]]:
    """Each subschema with properties."""
    if isinstance(schema, Mapping):
        if isinstance(schema, dict) and schema.get("properties"):
            yield schema
        for name, member in schema.items():
            if name not in ("enum", "const", "default", "required"):
                yield from _iterate_objects(member)
    elif isinstance(schema, list):
        for item in schema:
            yield from _iterate_objects(item)
