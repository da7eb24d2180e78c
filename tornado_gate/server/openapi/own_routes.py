"""The operations of routes that no format serves: state of the process, stored files, `_explain`, this description."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tornado_gate.server.openapi.operations import (
    BODY_STATUSES,
    COMMON_STATUSES,
    NOT_MODIFIED,
    REQUEST_PARAMETERS,
    Components,
    add_samples,
    make_operation_id,
)
from tornado_gate.server.openapi.samples import Sample
from tornado_gate.server.openapi.schemas import JsonValue

STATUS_TAG = "status"
FILES_TAG = "files"

_READY: Mapping[str, Any] = {
    "type": "object",
    "required": ["status"],
    "properties": {
        "status": {"type": "string"},
        "failed_plugins": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Plugins that are on and cannot work, if any.",
        },
    },
}
_STATE: Mapping[str, Any] = {"type": "object", "required": ["status"], "properties": {"status": {"type": "string"}}}
_EXPLANATION: Mapping[str, Any] = {
    "type": "object",
    "description": "What would happen. Nothing is called.",
    "properties": {
        "operation": {"type": "string"},
        "format": {"type": "string"},
        "model": {"type": "string", "description": "The model asked for."},
        "entry": {"type": "string", "description": "The entry of conf that serves it."},
        "targets": {"type": "array", "items": {"type": "object"}, "description": "In the order of attempts."},
        "why": {"type": "string"},
        "target": {"type": "object", "description": "The target that would be tried first."},
        "lane": {"type": "string", "enum": ["verbatim", "translated"]},
        "upstream": {"type": ["object", "null"], "description": "The upstream request, with secrets masked."},
        "losses": {"type": "array", "items": {"type": "string"}},
        "limits": {"type": "object", "description": "What the key has left in this minute."},
        "answered_by": {"type": "string"},
    },
}


def build_own_routes(components: Components, base_url: str, explained: Sample | None) -> dict[str, JsonValue]:
    """Return the paths, by path and method. `explained` is an example of a chat request."""
    paths = {
        "/": _build_get("The name of the gateway", _STATE, base_url, path="/"),
        "/healthz": _build_get("Whether the process runs", _STATE, base_url, path="/healthz"),
        "/readyz": _build_get("Whether the process accepts requests", _READY, base_url, path="/readyz", also=503),
        "/metrics": _build_metrics(components),
        "/openapi.json": _build_get("This description", {"type": "object"}, base_url, path="/openapi.json"),
        "/media/{file_id}": _build_file(components, "An image or a sound of an answer, by its signed address"),
        "/videos/{file_id}": _build_file(components, "A video of a task, by its signed address"),
        "/v1/_explain": {"post": _build_explain(components, base_url, explained)},
    }
    return {path: dict(operations) for path, operations in paths.items()}


def _build_get(summary: str, schema: Mapping[str, Any], base_url: str, *, path: str, also: int = 0) -> JsonValue:
    operation: JsonValue = {
        "operationId": make_operation_id("get", path) or "get_root",
        "tags": [STATUS_TAG],
        "summary": summary,
        "security": [],
        "responses": {"200": {"description": "Yes.", "content": {"application/json": {"schema": dict(schema)}}}},
    }
    if also:
        operation["responses"][str(also)] = {
            "description": "No: `status` has the reason.",
            "content": {"application/json": {"schema": dict(schema)}},
        }
    sample = Sample(name="get", summary=summary, method="GET", path=path, public=True)
    return {"get": add_samples(operation, [sample], base_url)}


def _build_metrics(components: Components) -> JsonValue:
    description = (
        "In the text format of Prometheus. Served to callers on this machine, or with the token of `server.metrics_token`, "
        "or on a separate port."
    )
    operation: JsonValue = {
        "operationId": "get_metrics",
        "tags": [STATUS_TAG],
        "summary": "Metrics",
        "description": description,
        "security": [{}, {"bearer": []}],
        "responses": {
            "200": {"description": "The metrics.", "content": {"text/plain": {"schema": {"type": "string"}}}},
            **{str(status): components.refer_to_error("", status) for status in (401, 404)},
        },
    }
    return {"get": operation}


def _build_file(components: Components, summary: str) -> JsonValue:
    names = {"expires": "When the address expires, in Unix seconds.", "signature": "The signature of the address."}
    query = [
        {"name": name, "in": "query", "required": True, "description": text, "schema": {"type": "string"}}
        for name, text in names.items()
    ]
    segment = {"name": "file_id", "in": "path", "required": True, "schema": {"type": "string"}}
    path = "/videos" if "video" in summary else "/media"
    content = {"*/*": {"schema": {"type": "string", "format": "binary"}}}
    operation: JsonValue = {
        "operationId": make_operation_id("get", f"{path}/file_id"),
        "tags": [FILES_TAG],
        "summary": summary,
        "description": "Answers contain these addresses. They need no key. `Range` is supported.",
        "security": [],
        "parameters": [segment, *query],
        "responses": {
            "200": {"description": "The file.", "content": content},
            "206": {"description": "A part of the file.", "content": content},
            "304": NOT_MODIFIED,
            **{str(status): components.refer_to_error("", status) for status in (404, 416)},
        },
    }
    return {"get": operation}


def _build_explain(components: Components, base_url: str, explained: Sample | None) -> JsonValue:
    route = {
        "name": "route",
        "in": "query",
        "required": True,
        "description": "The path of the route whose body is sent.",
        "schema": {"type": "string"},
        "example": explained.path if explained else "/v1/chat/completions",
    }
    operation: JsonValue = {
        "operationId": "post_v1_explain",
        "tags": [STATUS_TAG],
        "summary": "What would happen to a request",
        "description": "Takes the body of any route and calls nothing. The addresses of upstreams are shown to administrators.",
        "parameters": [route, *({"$ref": f"#/components/parameters/{name}"} for name in REQUEST_PARAMETERS)],
        "requestBody": {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}},
        "responses": {
            "200": {"description": "The answer.", "content": {"application/json": {"schema": dict(_EXPLANATION)}}},
            **{
                str(status): components.refer_to_error("", status)
                for status in sorted((*COMMON_STATUSES, *BODY_STATUSES))
            },
        },
    }
    if explained is None:
        return operation
    sample = Sample(
        name="chat", summary="A chat", method="POST", path="/v1/_explain", query={"route": explained.path},
        body=explained.body, needs=explained.needs,
    )  # fmt: skip
    return add_samples(operation, [sample], base_url)
