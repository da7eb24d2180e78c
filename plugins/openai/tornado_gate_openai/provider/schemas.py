"""Schemas that OpenAI's models reject, made acceptable: parameters of tools, and response formats of other vendors. Pure.

Other vendors' models always follow a schema, so it is sent with ``strict: true`` if it can be: its optional properties become
required and nullable, and the nulls are removed from the response. A schema outside the vendor's subset is sent with ``strict:
false`` and reported.

A response schema of another type is wrapped in an object with the one property `value`, and the response is unwrapped again,
even in a stream. Formats of other vendors allow such schemas: Gemini's often are lists.

Sources: "array schema missing items": modelscope/ms-agent#610; "object schema missing properties":
spring-projects/spring-ai#4776; "schema must be a JSON Schema of 'type: \"object\"'":
developers.openai.com/api/docs/guides/structured-outputs, "Supported schemas".
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from tornado_gate.streams.stages import Step, add_step
from tornado_gate.types import Call, ChatRequest, PartDelta, PartEnd, PartStart, StreamEvent, Tool, VendorTool
from tornado_gate.types.value import replace
from tornado_gate_openai.provider.features import OpenAIModelFeatures
from tornado_gate_openai.wire.optional_members import NullRemover, has_optional, require_all
from tornado_gate_openai.wire.schema import make_strict

_VALUE: Final = "value"
_MAPS: Final = ("properties", "$defs", "definitions", "patternProperties")
_LISTS: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE: Final = ("items", "additionalProperties", "not", "if", "then", "else")
_DEFINITIONS: Final = ("$defs", "definitions", "$schema")
_START: Final = re.compile(r'\s*\{\s*"value"\s*:\s*')
_LONGEST_START: Final = 200
_END_SIGNS: Final = "} \t\r\n"


def fit_schemas(call: Call, request: ChatRequest, features: OpenAIModelFeatures) -> ChatRequest:
    """`request` with schemas that the vendor accepts. Reports a ``strict`` that cannot be kept to `call.drop_field`."""
    if not features.strict_subset:
        return request
    tools = tuple(
        _fit_tool(call, request, number, tool) if isinstance(tool, Tool) else tool
        for number, tool in enumerate(request.tools)
    )
    if tools != request.tools:
        request = replace(request, tools=tools)
    response_format = request.response_format
    if (
        response_format is None
        or response_format.kind != "json_schema"
        or response_format.schema is None
        or _is_own(request)
    ):
        return request
    request = _wrap_format(request) if _is_wrapped(request, features) else request
    return _bind_format(call, request)


def _is_own(request: ChatRequest) -> bool:
    return request.wire_format.startswith("openai")


def _bind_format(call: Call, request: ChatRequest) -> ChatRequest:
    """`request` with a schema that the model is bound to; otherwise the schema is reported."""
    response_format = request.response_format
    assert response_format is not None
    if response_format.strict is not None:
        return request
    enforced = make_strict(require_all(response_format.schema))
    if enforced is None:
        call.drop_field(request.member_name("response_format", "schema"))
        return replace(request, response_format=replace(response_format, strict=False))
    return replace(request, response_format=replace(response_format, schema=enforced, strict=True))


def _fit_tool(call: Call, request: ChatRequest, number: int, tool: Tool | VendorTool) -> Tool | VendorTool:
    if not isinstance(tool, Tool) or tool.parameters is None:
        return tool
    parameters = complete_parameters(tool.parameters)
    strict = tool.strict
    if strict and not _is_own(request):
        enforced = make_strict(require_all(parameters))
        if enforced is None:
            call.drop_field(f"{request.field_name('tools')}.{number}.strict")
            strict = False
        else:
            parameters = enforced
    if parameters is tool.parameters and strict is tool.strict:
        return tool
    return replace(tool, parameters=parameters, strict=strict)


def complete_parameters(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The parameters of a tool with ``properties`` at the top and ``items`` in each array; the same object if it has them."""
    completed: Mapping[str, Any] = _complete_arrays(schema)
    if completed.get("type") == "object" and "properties" not in completed:
        completed = {**completed, "properties": {}}
    return completed


def _complete_arrays(schema: Any) -> Any:
    """`schema` with ``items: {}``, which allows everything, in each array without items; the same object without such arrays."""
    if not isinstance(schema, Mapping):
        return schema
    changed: dict[str, Any] = {}
    for name in _MAPS:
        if isinstance(members := schema.get(name), Mapping):
            inner = {key: _complete_arrays(value) for key, value in members.items()}
            if any(inner[key] is not members[key] for key in members):
                changed[name] = inner
    for name in _LISTS:
        if isinstance(branches := schema.get(name), list):
            completed = [_complete_arrays(value) for value in branches]
            if any(branch is not other for branch, other in zip(completed, branches, strict=True)):
                changed[name] = completed
    for name in _SINGLE:
        if (inner_schema := schema.get(name)) is not None and (
            branch := _complete_arrays(inner_schema)
        ) is not inner_schema:
            changed[name] = branch
    kinds = schema.get("type")
    if "array" in (kinds if isinstance(kinds, list) else [kinds]) and not isinstance(
        schema.get("items"), Mapping | bool
    ):
        changed["items"] = {}
    return {**schema, **changed} if changed else schema


def _is_wrapped(request: ChatRequest, features: OpenAIModelFeatures) -> bool:
    """Return whether the response schema must be wrapped, because it is not an object at the top."""
    response_format = request.response_format
    if (
        not features.strict_subset
        or response_format is None
        or response_format.schema is None
        or response_format.kind != "json_schema"
    ):
        return False
    return not _is_own(request) and response_format.schema.get("type") != "object"


def _wrap_format(request: ChatRequest) -> ChatRequest:
    response_format = request.response_format
    assert response_format is not None
    assert response_format.schema is not None
    schema: dict[str, Any] = {name: _move_references(value) for name, value in response_format.schema.items()}
    kept: dict[str, Any] = {name: schema.pop(name) for name in _DEFINITIONS if name in schema}
    wrapped: dict[str, Any] = {"type": "object", "properties": {_VALUE: schema}, "required": [_VALUE]}
    schema_of_object = {**kept, **wrapped, "additionalProperties": False}
    return replace(request, response_format=replace(response_format, schema=schema_of_object))


def _move_references(value: Any) -> Any:
    """`value` with references to the whole schema changed to its new position; references to definitions stay."""
    if isinstance(value, Mapping):
        moved = {name: _move_references(member) for name, member in value.items()}
        reference = moved.get("$ref")
        if isinstance(reference, str) and not reference.startswith(("#/$defs/", "#/definitions/")):
            moved["$ref"] = f"#/properties/{_VALUE}{reference.removeprefix('#')}"
        return moved
    return [_move_references(member) for member in value] if isinstance(value, list) else value


def unwrap_answers(
    events: AsyncIterator[StreamEvent], request: ChatRequest, features: OpenAIModelFeatures
) -> AsyncIterator[StreamEvent]:
    """`events` with the value inside the object of a wrapped response schema. `request` is the one before `fit_schemas`."""
    return add_step(events, _UnwrappedTexts()) if _is_wrapped(request, features) else events


def remove_added_nulls(
    events: AsyncIterator[StreamEvent], request: ChatRequest, features: OpenAIModelFeatures
) -> AsyncIterator[StreamEvent]:
    """`events` without the nulls that `fit_schemas` has allowed. `request` is the one before; calls have the caller's names."""
    if not features.strict_subset or _is_own(request):
        return events
    schemas = {tool.name: tool.parameters for tool in request.tools if isinstance(tool, Tool) and tool.strict}
    response_format = request.response_format
    answer = response_format.schema if response_format is not None and response_format.kind == "json_schema" else None
    changed = {name: schema for name, schema in schemas.items() if schema is not None and has_optional(schema)}
    answer = answer if has_optional(answer) else None
    return add_step(events, _WithoutNulls(answer, changed)) if answer is not None or changed else events


class _WithoutNulls(Step[StreamEvent, StreamEvent]):
    __slots__ = ("_answer", "_parameters", "_removers")

    def __init__(self, answer: Mapping[str, Any] | None, parameters: Mapping[str, Mapping[str, Any]]) -> None:
        self._answer = answer
        self._parameters = parameters
        self._removers: dict[int, NullRemover] = {}

    def take(self, items: list[StreamEvent], out: list[StreamEvent]) -> None:
        for event in items:
            match event:
                case PartStart(part=None):
                    schema = self._parameters.get(event.name) if event.kind == "tool_call" else None
                    schema = self._answer if event.kind == "text" else schema
                    if schema is not None:
                        self._removers[event.index] = NullRemover(schema)
                    out.append(event)
                case PartDelta(index=index, data=str(text)) if index in self._removers:
                    piece = self._removers[index].feed(text)
                    if piece or event.logprobs:
                        out.append(replace(event, data=piece))
                case PartEnd(index=index) if index in self._removers:
                    if rest := self._removers.pop(index).finish():
                        out.append(PartDelta(index=index, data=rest))
                    out.append(event)
                case _:
                    out.append(event)


class _UnwrappedTexts(Step[StreamEvent, StreamEvent]):
    __slots__ = ("_readers",)

    def __init__(self) -> None:
        self._readers: dict[int, _ValueReader] = {}

    def take(self, items: list[StreamEvent], out: list[StreamEvent]) -> None:
        for event in items:
            match event:
                case PartStart(kind="text", part=None):
                    self._readers[event.index] = _ValueReader()
                    out.append(event)
                case PartDelta(index=index, data=str(text)) if index in self._readers:
                    piece = self._readers[index].feed(text)
                    if piece or event.logprobs:
                        out.append(replace(event, data=piece))
                case PartEnd(index=index) if index in self._readers:
                    if rest := self._readers.pop(index).finish():
                        out.append(PartDelta(index=index, data=rest))
                    out.append(event)
                case _:
                    out.append(event)


class _ValueReader:
    """The reader of the text ``{"value": …}``, chunk by chunk. It returns the text of the value; any other text is unchanged.

    `_kept` may be the end of the object: chunks of braces and white space.
    """

    def __init__(self) -> None:
        self._start = ""
        self._kept: list[str] = []
        self._inside: bool | None = None

    def feed(self, text: str) -> str:
        """The text that is known to belong to the value."""
        if self._inside is None:
            self._start += text
            start = _START.match(self._start)
            if start is not None and start.end() < len(self._start):
                self._inside, text = True, self._start[start.end() :]
            elif len(self._start) > _LONGEST_START:
                self._inside, text = False, self._start
            else:
                return ""
        if not self._inside:
            return text
        known = text.rstrip(_END_SIGNS)
        if not known:
            self._kept.append(text)
            return ""
        ready = "".join((*self._kept, known))
        self._kept = [text[len(known) :]]
        return ready

    def finish(self) -> str:
        """The remaining text of the value, without the end of the object."""
        if self._inside is None:
            return self._start
        return "".join(self._kept).rstrip().removesuffix("}").rstrip()
