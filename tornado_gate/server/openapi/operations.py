"""Operations of the document: one for each method and path of a format's routes, with parameters, bodies, responses,
errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from tornado_gate.errors import GateError
from tornado_gate.pipeline.snapshot import Snapshot
from tornado_gate.server.openapi.errors import ERROR_SCHEMA, ExampleError, describe_status
from tornado_gate.server.openapi.samples import Sample, render_samples
from tornado_gate.server.openapi.schemas import JsonValue, SchemaRegistry
from tornado_gate.targets.routing import ServedRoute
from tornado_gate.types import Caller, Model, Route, RouteDescription, RouteExample
from tornado_gate.types.value import Value, replace

_SEGMENT = re.compile(r"\{(\w+)\}")
_EVERYBODY = Caller(id="", account="")
NO_MODEL = "MODEL"
"""The model in examples of operations that no model of the gateway supports."""

COMMON_STATUSES = (400, 401, 403, 404, 405, 429, 500, 503)
KEYLESS_STATUSES = (400, 404, 405, 413, 500, 503)
BODY_STATUSES = (408, 413, 415)
UPSTREAM_STATUSES = (502, 504)
NOT_MODIFIED: JsonValue = {"description": "The file has not changed: `If-None-Match` names it."}

ANSWER_HEADERS: Mapping[str, str] = {
    "X-Request-Id": "The id of the request: the caller's own if it is valid.",
    "X-Gate-Provider": "The provider entry that answered.",
    "X-Gate-Model": "The upstream's model that answered.",
    "X-Gate-Loss": "Request fields that the upstream does not support, separated by commas.",
    "X-Gate-Attempts": "The number of attempts, if there was more than one.",
    "X-Gate-Cost": "The cost of the request in US dollars, if it is known.",
    "X-RateLimit-Limit-Requests": "The key's requests per minute.",
    "X-RateLimit-Remaining-Requests": "The requests that are left.",
    "X-RateLimit-Reset-Requests": "When all requests are available again.",
    "X-RateLimit-Limit-Tokens": "The key's tokens per minute.",
    "X-RateLimit-Remaining-Tokens": "The tokens that are left.",
    "X-RateLimit-Reset-Tokens": "When all tokens are available again.",
}
REQUEST_PARAMETERS: Mapping[str, tuple[str, JsonValue]] = {
    "x-request-id": ("The id of the request in answers and logs.", {"type": "string", "maxLength": 128}),
    "x-gate-strict": (
        "`1` or `true`: a request field that the upstream does not support is a 400 instead of a name in `X-Gate-Loss`.",
        {"type": "string", "enum": ["1", "true", "0", "false"]},
    ),
    "x-gate-stream": (
        "Whether another target is tried after a failure, and keep-alives after so many seconds of silence: "
        "`failover=pre-first-event|never; ping=15`.",
        {"type": "string", "examples": ["failover=never; ping=15"]},
    ),
}


class DescribedRoute(Value, frozen=True):
    """A route of a format with the format's description of it."""

    format: str
    route: Route
    description: RouteDescription


class Components:
    """The components of one document."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.schemas = SchemaRegistry()
        self.responses: dict[str, JsonValue] = {}
        self._snapshot = snapshot

    def refer_to_error(self, format: str, status: int) -> JsonValue:
        """Return a reference to the response with an error, whose example has the envelope of the format."""
        name = f"{format or 'gate'}.{status}"
        if name not in self.responses:
            self.responses[name] = {
                "description": describe_status(status),
                "content": {
                    "application/json": {
                        "schema": {"$ref": "#/components/schemas/Error"},
                        "example": _render_error(self._snapshot, format, status),
                    }
                },
            }
        return {"$ref": f"#/components/responses/{name}"}

    def render(self) -> JsonValue:
        headers = {
            name: {"description": text, "schema": {"type": "string"}} for name, text in sorted(ANSWER_HEADERS.items())
        }
        parameters = {
            name: {"name": name, "in": "header", "description": text, "schema": schema}
            for name, (text, schema) in REQUEST_PARAMETERS.items()
        }
        return {
            "schemas": {"Error": dict(ERROR_SCHEMA), **self.schemas.components},
            "responses": dict(sorted(self.responses.items())),
            "headers": headers,
            "parameters": parameters,
            "securitySchemes": SECURITY_SCHEMES,
        }


SECURITY_SCHEMES: JsonValue = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "`Authorization: Bearer KEY`"},
    "x-api-key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
    "x-goog-api-key": {"type": "apiKey", "in": "header", "name": "x-goog-api-key"},
    "key": {"type": "apiKey", "in": "query", "name": "key", "description": "Never logged."},
}
SECURITY: list[JsonValue] = [{name: []} for name in SECURITY_SCHEMES]
HEADER_SECURITY: list[JsonValue] = [
    {name: []} for name, scheme in SECURITY_SCHEMES.items() if scheme.get("in") != "query"
]
"""The security of routes where `?key=` is a filter."""


def _render_error(snapshot: Snapshot, format: str, status: int) -> Any:
    import orjson

    error = ExampleError(status)
    lane = snapshot.formats.get(format)
    if lane is not None:
        try:
            return orjson.loads(lane.translate_error(None, error))
        except (GateError, orjson.JSONDecodeError):
            pass  # its lane has logged it
    return {"error": error.body()}


def describe_routes(snapshot: Snapshot) -> list[DescribedRoute]:
    """Return all routes of all formats with their descriptions. If a format has none or its hook fails, the description
    is empty.
    """
    described = []
    for served in _iterate_routes(snapshot):
        try:
            description = snapshot.formats[served.format].describe_route(served.route)
        except GateError:
            description = None  # the lane has logged it
        described.append(DescribedRoute(served.format, served.route, description or RouteDescription()))
    return described


def _iterate_routes(snapshot: Snapshot) -> Iterable[ServedRoute]:
    return snapshot.routes.__iter__()


class OperationBuilder:
    """A builder of operations for the models of a snapshot. `base_url` is the gateway's address in code samples."""

    def __init__(self, snapshot: Snapshot, components: Components, base_url: str) -> None:
        self._snapshot = snapshot
        self._components = components
        self._base_url = base_url
        self._models = snapshot.targets.list_models(_EVERYBODY)
        self._bodies: dict[int, str] = {}

    def build(self, same: list[DescribedRoute], aliases: Mapping[str, list[str]]) -> JsonValue:
        """Return the operation of the routes with one method and path. Several formats may serve it, for different
        callers.
        """
        first = same[-1]  # the route without `claims`: for callers that no other format recognises
        route, description = first.route, first.description
        samples = [sample for described in same for sample in self.make_samples(described)]
        text = [described.description.description for described in same if described.description.description]
        if len(same) > 1:
            names = ", ".join(f"`{described.format}`" for described in same)
            text.append(f"The caller's headers select the format of the answer: {names}.")
        if others := aliases.get(f"{route.method} {route.path}"):
            text.append("The same at: " + ", ".join(f"`{path}`" for path in others) + ".")
        operation: JsonValue = {
            "operationId": make_operation_id(route.method, route.path),
            "tags": [description.tag or route.operation],
            "summary": description.summary or f"{route.operation} ({first.format})",
            "description": "\n\n".join(text),
            "parameters": self._list_parameters(same),
        }
        body = self._describe_body(first)
        if body is not None:
            operation["requestBody"] = body
        operation["responses"] = self._describe_responses(same, has_body=body is not None)
        if route.key != "required":
            operation["security"] = [] if route.key == "none" else [{}, *SECURITY]
        operation["x-gate-format"] = [described.format for described in same]
        operation["x-gate-operations"] = list(route.operations)
        if others:
            operation["x-gate-aliases"] = others
        return add_samples(operation, samples, self._base_url)

    # Requests

    def _list_parameters(self, same: list[DescribedRoute]) -> list[JsonValue]:
        route = same[-1].route
        names = _SEGMENT.findall(route.path)
        parameters = [_describe_segment(name, is_last=name == names[-1]) for name in names]
        seen = set(names)
        for member in same:
            for parameter in member.description.parameters:
                if parameter.name not in seen:
                    seen.add(parameter.name)
                    described: JsonValue = {
                        "name": parameter.name,
                        "in": parameter.place,
                        "description": parameter.description,
                    }
                    described |= {"required": parameter.required, "schema": dict(parameter.schema)}
                    parameters.append(
                        described if parameter.example is None else {**described, "example": parameter.example}
                    )
        common = REQUEST_PARAMETERS if route.method == "POST" and not route.socket else ("x-request-id",)
        return parameters + [{"$ref": f"#/components/parameters/{name}"} for name in common]

    def _describe_body(self, described: DescribedRoute) -> JsonValue | None:
        route, description = described.route, described.description
        if route.method != "POST" or route.socket:
            return None
        content: JsonValue = {}
        examples = {
            sample.name: {"summary": sample.summary, "value": sample.body}
            for sample in self.make_samples(described)
            if sample.body is not None
        }
        if route.multipart != "only":
            schema = self._refer_to_body(described) if description.body is not None else {"type": "object"}
            content["application/json"] = {"schema": schema, **({"examples": examples} if examples else {})}
        for media_type in route.content_types:
            content[media_type] = {"schema": {"type": "string"}}
        if route.multipart != "no":
            content["multipart/form-data"] = {"schema": self._describe_form(description.form)}
        is_optional = route.empty_body or (description.body is None and route.model == "none")
        return {"required": not is_optional, "content": content}

    def _describe_form(self, form: Any) -> JsonValue:
        if form is None or isinstance(form, Mapping):
            return dict(form or {"type": "object"})
        return self._components.schemas.convert_form(form)

    def _refer_to_body(self, described: DescribedRoute) -> JsonValue:
        """Return a reference to the schema of a body. Routes with the same schema share it."""
        description = described.description
        if isinstance(description.body, Mapping):
            return dict(description.body)
        if isinstance(description.body, tuple):
            alternatives = [replace(description, body=body) for body in description.body]
            return {
                "anyOf": [
                    self._refer_to_body(DescribedRoute(described.format, described.route, alternative))
                    for alternative in alternatives
                ]
            }
        name = self._bodies.get(id(description.body))
        if name is None:
            stem = f"{described.format}.{make_operation_id(described.route.method, described.route.path)}"
            name = stem if stem not in self._bodies.values() else f"{stem}_{len(self._bodies)}"
            self._bodies[id(description.body)] = name
            converted = self._components.schemas.convert(description.body)
            self._components.schemas.add(name, converted)
        return {"$ref": f"#/components/schemas/{name}"}

    # Responses

    def _describe_responses(self, same: list[DescribedRoute], *, has_body: bool) -> JsonValue:
        route, format = same[-1].route, same[-1].format
        responses: JsonValue = {}
        if route.socket or route.messages:
            responses["101"] = {"description": "The connection is upgraded to a WebSocket."}
        if not route.socket:
            responses["200"] = self._describe_answer(same)
        is_file = any(parameter.name == "Range" for described in same for parameter in described.description.parameters)
        if is_file:
            responses["206"] = {"description": "A part of the file.", "content": responses["200"]["content"]}
            responses["304"] = NOT_MODIFIED
        statuses = {
            *(COMMON_STATUSES if route.key != "none" else KEYLESS_STATUSES),
            *(BODY_STATUSES if has_body else ()),
        }
        statuses |= set(UPSTREAM_STATUSES) if route.model != "none" else set()
        statuses |= {409} if route.operation == "videos" else set()
        statuses |= {426} if route.socket else set()
        statuses |= {416} if is_file else set()
        for status in sorted(statuses):
            responses[str(status)] = self._components.refer_to_error(format, status)
        return responses

    def _describe_answer(self, same: list[DescribedRoute]) -> JsonValue:
        schemas = [dict(described.description.answer) for described in same if described.description.answer is not None]
        content: JsonValue = {}
        if schemas:
            content["application/json"] = {"schema": schemas[0] if len(schemas) == 1 else {"anyOf": schemas}}
        for described in same:
            for media_type, example in described.description.media_types.items():
                content[media_type] = _describe_media(media_type, example)
        if not content:
            content["application/json"] = {"schema": {}}
        headers = {name: {"$ref": f"#/components/headers/{name}"} for name in ANSWER_HEADERS}
        return {"description": "The answer.", "headers": headers, "content": content}

    # Examples

    def make_samples(self, described: DescribedRoute) -> list[Sample]:
        """Return the examples of a route with a model that supports it."""
        return [self._make_sample(described, example) for example in described.description.examples]

    def _make_sample(self, described: DescribedRoute, example: RouteExample) -> Sample:
        route = described.route
        model = self._choose_model(route, example)
        arguments = {"model": model, **example.arguments}
        path = _SEGMENT.sub(lambda segment: arguments.get(segment[1], segment[1].upper()), route.path)
        body, query, fields = _fill_model(example.body, model), dict(example.query), dict(example.fields)
        is_form = bool(example.files or example.fields)
        if route.model == "body" and not is_form:
            body = {"model": model, **(body or {})}
        elif route.model == "body":
            fields = {"model": model, **fields}
        elif route.model == "query":
            query = {"model": model, **query}
        needs = example.needs or ("" if model != NO_MODEL or route.model == "none" else "a model")
        return Sample(
            name=example.name, summary=example.summary, method=route.method, path=path, query=query,
            headers=example.headers, body=body, fields=fields, files=example.files, needs=needs,
            answer=_choose_file(described.description),
        )  # fmt: skip

    def _choose_model(self, route: Route, example: RouteExample) -> str:
        """Return the default of the operation, else the first model of conf that supports it."""
        operation = example.operation or route.operation
        if operation == "models":
            return self._models[0].id if self._models else NO_MODEL
        defaults = self._snapshot.config.defaults
        if operation == route.operation and route.default is not None and not example.operation:
            operation_default = defaults.get(route.default(example.body or {}))
        else:
            operation_default = defaults.get(operation)
        able = [model.id for model in self._models if _supports_operation(model, operation)]
        return operation_default if operation_default in able else next(iter(able), NO_MODEL)


def _fill_model(value: Any, model: str) -> Any:
    """Return `value` with the name of the model in place of the text ``{model}``."""
    if isinstance(value, dict):
        return {name: _fill_model(member, model) for name, member in value.items()}
    if isinstance(value, list):
        return [_fill_model(item, model) for item in value]
    return model if value == "{model}" else value


def _supports_operation(model: Model, operation: str) -> bool:
    return operation in model.operations


def _choose_file(description: RouteDescription) -> str:
    """Return the name of the file for a response that is not text, "" for others."""
    kinds = {"audio": "speech.mp3", "video": "video.mp4", "image": "image.png"}
    first = next(iter(description.media_types), "") if description.answer is None else ""
    return kinds.get(first.partition("/")[0], "")


def _describe_segment(name: str, *, is_last: bool) -> JsonValue:
    text = (
        "The name of a model; it may contain slashes."
        if name == "model" and is_last
        else f"The {name.replace('_', ' ')}."
    )
    return {"name": name, "in": "path", "required": True, "description": text, "schema": {"type": "string"}}


def _describe_media(media_type: str, example: str) -> JsonValue:
    if media_type.startswith(("audio/", "video/", "image/")):
        return {"schema": {"type": "string", "format": "binary"}}
    described: JsonValue = {"schema": {"type": "string"}}
    return {**described, "example": example} if example else described


def make_operation_id(method: str, path: str) -> str:
    """Return a name that is unique in the document: ``post_v1_chat_completions``."""
    return re.sub(r"\W+", "_", f"{method.lower()}{path}").strip("_")


def add_samples(operation: JsonValue, samples: list[Sample], base_url: str) -> JsonValue:
    """Return the operation with its examples as requests (``x-gate-examples``) and the first example as code."""
    if not samples:
        return operation
    operation["x-gate-examples"] = [
        {
            "name": sample.name,
            "summary": sample.summary,
            "method": sample.method,
            "address": sample.address,
            "headers": dict(sample.headers),
            "body": sample.body,
            "fields": dict(sample.fields),
            "files": dict(sample.files),
            "needs": sample.needs,
        }
        for sample in samples
    ]
    operation["x-codeSamples"] = render_samples(samples[0], base_url)
    return operation
