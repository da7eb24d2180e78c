"""The description of a route in the API description (/openapi.json, /docs); the result of a format's `describe_route`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from tornado_gate.types.value import Value, field

JsonSchema = Mapping[str, Any]
"""A JSON schema of the draft 2020-12."""


class RouteParameter(Value, frozen=True, kw_only=True):
    """A parameter `name` in the query or in a header (`place`), with its `description` and JSON `schema`; `required`: it must
    be sent.

    `example` is a valid value.
    """

    name: str
    description: str
    place: Literal["query", "header"] = "query"
    schema: JsonSchema = field(default_factory=lambda: {"type": "string"})
    required: bool = False
    example: Any = None


class RouteExample(Value, frozen=True, kw_only=True):
    """A request `name` with a one-line `summary` that works after the core has added the name of a model.

    The core adds it to `body`, `fields` or the path, as the route requires. `body` is a JSON value; the text ``{model}`` in it is
    replaced by the name. `fields` are the text fields of a form and `files` its files: field to file name, such as ``{"file":
    "speech.wav"}``. `arguments` are the path's other segments; `query` and `headers` are required besides the key. `operation` is
    one of the route's operations, for a route with several. An example with `needs` works only if the gateway has the thing that
    `needs` names in words: "a task".
    """

    name: str
    summary: str
    body: Any = None
    fields: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    arguments: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    operation: str = ""
    needs: str = ""


class RouteDescription(Value, frozen=True, kw_only=True):
    """One route: a one-line `summary`, a longer `description`, and the group `tag`; without one, the operation.

    `body` is the marshmallow schema of its JSON body (a class or an instance), a JSON schema, or a tuple of alternatives.
    `form` is a multipart form: a marshmallow schema, or a JSON schema whose files have the
    format "binary". `parameters` are parameters of the query and of headers, `examples` complete requests. `answer` is the JSON
    schema of a JSON response. `media_types` are the other media types of responses, with a sentence or an example text:
    ``{"text/event-stream": "data: {…}\\n\\n", "audio/mpeg": ""}``.

    `alias_of` is the path of the route that this route is another spelling of; the other fields are then ignored.
    """

    summary: str = ""
    description: str = ""
    tag: str = ""
    body: Any = None
    form: Any = None
    parameters: tuple[RouteParameter, ...] = ()
    answer: JsonSchema | None = None
    media_types: Mapping[str, str] = field(default_factory=dict)
    examples: tuple[RouteExample, ...] = ()
    alias_of: str = ""
