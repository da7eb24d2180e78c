"""The operations of the administration API, from its table of routes: bodies from marshmallow schemas, responses from
types.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import msgspec
import orjson

from tornado_gate.server.admin.routes import ROUTES
from tornado_gate.server.admin.routing import AdminRoute
from tornado_gate.server.openapi.operations import (
    COMMON_STATUSES,
    HEADER_SECURITY,
    Components,
    add_samples,
    make_operation_id,
)
from tornado_gate.server.openapi.samples import Sample
from tornado_gate.server.openapi.schemas import JsonValue, make_plain

_SEGMENT = re.compile(r"\{(\w+)\}")
_FORMAT = "admin"
_STATUSES = sorted((*COMMON_STATUSES, 408, 409, 413, 415))


def build_admin_routes(components: Components, base_url: str) -> dict[str, JsonValue]:
    """Return the paths, by path and method."""
    answers = _describe_answers(components, ROUTES)
    paths: dict[str, JsonValue] = defaultdict(dict)
    for route in ROUTES:
        paths[route.whole_path][route.method.lower()] = _build_operation(route, components, base_url, answers)
    return dict(paths)


def _describe_answers(components: Components, routes: Iterable[AdminRoute]) -> dict[Any, JsonValue]:
    """Return the schema of each type of response, and add the schemas to which they refer."""
    kinds = list(dict.fromkeys(route.answer for route in routes if not isinstance(route.answer, dict)))
    schemas, components_by_name = msgspec.json.schema_components(
        kinds, ref_template=f"#/components/schemas/{_FORMAT}.{{name}}"
    )
    for name, schema in orjson.loads(
        orjson.dumps(components_by_name)
    ).items():  # defaults such as tuples become JSON values
        if "description" in schema:
            schema["description"] = make_plain(schema["description"])
        components.schemas.add(f"{_FORMAT}.{name}", schema)
    return dict(zip(kinds, schemas, strict=True))


def _build_operation(
    route: AdminRoute, components: Components, base_url: str, answers: dict[Any, JsonValue]
) -> JsonValue:
    operation: JsonValue = {
        "operationId": make_operation_id(route.method, route.whole_path),
        "tags": [route.tag],
        "summary": route.summary,
        "description": route.description,
        "parameters": _list_parameters(route),
        "responses": _describe_responses(route, components, answers),
        "security": HEADER_SECURITY,
        "x-gate-role": "administrator",
    }
    if route.body is not None:
        content: JsonValue = {"schema": components.schemas.convert(route.body)}
        if route.example is not None:
            content["examples"] = {"example": {"summary": route.summary, "value": dict(route.example)}}
        operation["requestBody"] = {"required": True, "content": {"application/json": content}}
    path = _SEGMENT.sub(lambda segment: segment[1].upper(), route.whole_path)
    sample = Sample(
        name="example", summary=route.summary, method=route.method, path=path, query=route.query_example,
        body=None if route.example is None else dict(route.example), needs="an administrator",
    )  # fmt: skip
    return add_samples(operation, [sample], base_url)


def _list_parameters(route: AdminRoute) -> list[JsonValue]:
    segments: list[JsonValue] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _SEGMENT.findall(route.path)
    ]
    queries: list[JsonValue] = [
        {"name": parameter.name, "in": "query", "description": parameter.description, "schema": dict(parameter.schema)}
        for parameter in route.parameters
    ]
    return [*segments, *queries, {"$ref": "#/components/parameters/x-request-id"}]


def _describe_responses(route: AdminRoute, components: Components, answers: dict[Any, JsonValue]) -> JsonValue:
    schema = route.answer if isinstance(route.answer, dict) else answers[route.answer]
    content: JsonValue = {"application/json": {"schema": schema}}
    if any(parameter.name == "format" for parameter in route.parameters):
        content["text/csv"] = {"schema": {"type": "string"}}
    errors = {str(status): components.refer_to_error(_FORMAT, status) for status in _STATUSES}
    return {"200": {"description": "The answer.", "content": content}, **errors}
