"""The OpenAPI 3.1 document of a snapshot: every route of every format that is on, and the gateway's own routes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from tornado_gate import __version__
from tornado_gate.pipeline.snapshot import Snapshot
from tornado_gate.server.openapi.admin_routes import build_admin_routes
from tornado_gate.server.openapi.operations import (
    SECURITY,
    Components,
    DescribedRoute,
    OperationBuilder,
    describe_routes,
)
from tornado_gate.server.openapi.own_routes import FILES_TAG, STATUS_TAG, build_own_routes
from tornado_gate.server.openapi.samples import Sample
from tornado_gate.server.openapi.schemas import OPENAPI_VERSION, JsonValue

_INTRODUCTION = """\
A gateway to the APIs of AI models. Each wire format has its own routes; a model of any provider can be used with any of them.

**Keys.** Send the key as `Authorization: Bearer KEY`, `x-api-key`, `x-goog-api-key` or `?key=`. Two different keys are a 401.
Below `/admin/v1` send it in a header: there `?key=` is a filter.

**Errors.** The body is `{"error": {"message", "type", "param", "code"}}`; formats may add members. The HTTP status is the truth.

**Streams.** `stream: true` answers with server-sent events. An error after the first byte is the last event.
"""
_TAGS: Mapping[str, str] = {
    "chat": "Chat, messages, responses and completions.",
    "models": "The models of this gateway.",
    STATUS_TAG: "The state of the process, and explanations of requests.",
    FILES_TAG: "Files of answers.",
}


def build_document(snapshot: Snapshot) -> JsonValue:
    """Return the document. Takes up to a second: call it in a thread."""
    components = Components(snapshot)
    base_url = find_base_url(snapshot)
    builder = OperationBuilder(snapshot, components, base_url)
    grouped, aliases = _group_routes(describe_routes(snapshot))
    paths: dict[str, JsonValue] = defaultdict(dict)
    for (method, path), same in grouped.items():
        operation = builder.build(same, aliases)
        if same[-1].route.messages is not None:
            _describe_messages(operation)
        paths[path][method.lower()] = operation
    explained = _find_chat(builder, grouped)
    own = build_own_routes(components, base_url, explained)
    administration = build_admin_routes(components, base_url) if snapshot.config.console.enabled else {}
    whole: JsonValue = {
        "openapi": OPENAPI_VERSION,
        "info": {
            "title": "tornado_gate",
            "version": __version__,
            "description": _INTRODUCTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": snapshot.config.server.public_url or "/"}],
        "security": SECURITY,
        "tags": [],
        "paths": {**paths, **own, **administration},
    }
    whole["tags"] = _list_tags(whole["paths"])
    whole["components"] = components.render()
    return whole


def find_base_url(snapshot: Snapshot) -> str:
    """Return the gateway's address in code samples: ``public_url`` of conf, else host and port of the server."""
    server = snapshot.config.server
    host = "127.0.0.1" if server.host in ("", "0.0.0.0", "::") else server.host
    return server.public_url or f"{server.scheme}://{f'[{host}]' if ':' in host else host}:{server.port or 8080}"


def _group_routes(
    described: list[DescribedRoute],
) -> tuple[dict[tuple[str, str], list[DescribedRoute]], dict[str, list[str]]]:
    """Return the routes by method and path, and aliases by the ``METHOD path`` of the route that they stand for."""
    grouped: dict[tuple[str, str], list[DescribedRoute]] = defaultdict(list)
    aliases: dict[str, list[str]] = defaultdict(list)
    for described_route in described:
        if described_route.description.alias_of:
            aliases[f"{described_route.route.method} {described_route.description.alias_of}"].append(
                described_route.route.path
            )
        else:
            grouped[described_route.route.method, described_route.route.path].append(described_route)
    return grouped, aliases


def _describe_messages(operation: JsonValue) -> None:
    text = (
        "Also served over WebSocket: open a connection with `GET` and `Upgrade: websocket` at the same path; each message is "
        "the body of one request, and each answer arrives as the events of its stream."
    )
    operation["description"] = "\n\n".join(filter(None, (operation["description"], text)))
    operation["x-gate-websocket"] = True


def _find_chat(builder: OperationBuilder, grouped: Mapping[tuple[str, str], list[DescribedRoute]]) -> Sample | None:
    """Return the first example of a chat in JSON."""
    for (_, path), same in grouped.items():
        if same[-1].route.operation == "chat" and "{" not in path:
            for sample in builder.make_samples(same[-1]):
                if sample.body is not None:
                    return sample
    return None


def _list_tags(paths: Mapping[str, JsonValue]) -> list[JsonValue]:
    """Return the tags in the order of their first use."""
    used = {
        tag: None for operations in paths.values() for operation in operations.values() for tag in operation["tags"]
    }
    return [{"name": tag, "description": _TAGS[tag]} if tag in _TAGS else {"name": tag} for tag in used]
