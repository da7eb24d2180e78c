"""Calls, requests and lanes as the core passes them to a plugin."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

import orjson

from tornado_gate.codec import json_body
from tornado_gate.hookspecs import ProviderEntry
from tornado_gate.plugins.host import PluginHost
from tornado_gate.plugins.lanes import FormatLane, ProviderLane
from tornado_gate.types import Call, Caller, ChatRequest, Message, Reply, Route, Target, Text, WireRequest

KEY = "secret-of-the-test"


def load_provider(plugin: Any) -> ProviderLane:
    """Return the hooks of a provider plugin (a module or another object with hooks), checked against the specification."""
    host = PluginHost()
    return ProviderLane(host, host.add("under-test", plugin), [])


def load_format(plugin: Any) -> FormatLane:
    """Return the hooks of a format plugin, checked against the specification."""
    host = PluginHost()
    return FormatLane(host, host.add("under-test", plugin), [])


def chat(text: str = "Hello", **fields: Any) -> ChatRequest:
    """Return a chat request of one user message."""
    message = Message(role="user", parts=(Text(text=text),))
    return ChatRequest(**{"model": "test-model", "messages": (message,), **fields})


def target_of(
    lane: ProviderLane | None = None, entry: ProviderEntry | None = None, *, plugin: str = "", **fields: Any
) -> Target:
    """Return the target that `entry` becomes when the plugin of `lane` configures it. `fields` replace fields of the
    target.

    `plugin` is the name under which the plugin is installed; the default is the name in `lane`.
    """
    entry = entry or ProviderEntry(name="test", base_url="http://upstream.test/v1", api_key=KEY)
    capabilities = lane.configure(entry) if lane else None
    base_url = capabilities.base_url if capabilities and capabilities.base_url is not None else entry.base_url
    defaults: dict[str, Any] = {
        "provider": entry.name,
        "plugin": plugin or (lane.name if lane else ""),
        "model": "test-model",
        "upstream_model": "upstream-model",
        "base_url": base_url,
        "api_key": entry.api_key,
        "headers": entry.headers,
        "settings": capabilities.settings if capabilities else entry.settings,
    }
    return Target(**{**defaults, **fields})


def call_to(
    lane: ProviderLane | None = None,
    entry: ProviderEntry | None = None,
    *,
    upstream_model: str = "upstream-model",
    **fields: Any,
) -> Call:
    """Return a call whose target is `entry` as the plugin configured it. `upstream_model` is the model at the upstream.

    `fields` are fields of the call. For a target with other fields, pass ``target=target_of(…)``.
    """
    defaults: dict[str, Any] = {
        "id": "req_test",
        "operation": "chat",
        "format": "test",
        "model": "test-model",
        "caller": Caller(id="key_test", account="test"),
    }
    if "target" not in fields:
        model = fields.get("model", "test-model")
        defaults["target"] = target_of(lane, entry, model=model, upstream_model=upstream_model)
    return Call(**{**defaults, **fields})


async def iterate(items: Iterable[Any]) -> AsyncIterator[Any]:
    """Yield `items`, such as the chunks of an upstream or stream events. An exception among them is raised."""
    for item in items:
        if isinstance(item, BaseException):
            raise item
        yield item


def chunks_of(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    """Return the chunks of an upstream's response; see `iterate`."""
    return iterate(pieces)


async def collect_chunks(reply: Reply) -> list[bytes]:
    """Return the chunks of a response, as the caller receives them."""
    return [chunk async for chunk in reply.chunks]


def wire_request(route: Route, body: Mapping[str, Any] | bytes | None = None, **fields: Any) -> WireRequest:
    """Return the request of a caller of `route`. `body` is a JSON value or its text; None is a request without a body.

    `path_arguments` among the `fields` fill the segments of the path. With ``form=True`` the `body` holds the text
    fields of a form.
    """
    form = bool(fields.get("form"))
    raw = body if isinstance(body, bytes) else b"" if body is None or form else orjson.dumps(body)
    defaults: dict[str, Any] = {
        "path": route.path.format_map(fields.get("path_arguments", {})) if "path_arguments" in fields else route.path,
        "path_arguments": {},
        "query": {},
        "headers": {},
        "raw": raw,
        "json": dict(body) if isinstance(body, Mapping) else json_body.load_object(raw) if raw else {},
    }
    return WireRequest(**{"route": route, **defaults, **fields})
