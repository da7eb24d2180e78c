"""Tools that a request offers to a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tornado_gate.types.server_tools import ServerTool
from tornado_gate.types.value import Value, field

Extra = Mapping[str, Any]


class Tool(Value, frozen=True, kw_only=True):
    """A function that the model may call: `name`, `description`, and `parameters`, a JSON schema.

    `strict`: arguments must match the schema exactly. `extra` has further members of the caller's tool.
    """

    name: str
    description: str | None = None
    parameters: Mapping[str, Any] | None = None
    strict: bool | None = None
    extra: Extra = field(default_factory=dict)


class VendorTool(Value, frozen=True, kw_only=True):
    """A tool that only `wire_format` defines (web search, custom grammar, …): `value` is unchanged.

    `server` is set if several vendors run such a tool; renderers of other formats then use it. `members` are the tools of a
    group of tools.
    """

    wire_format: str
    value: Mapping[str, Any]
    server: ServerTool | None = None
    members: tuple[Tool | VendorTool, ...] = ()
