"""Tools that upstreams run themselves, if several vendors have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from tornado_gate.types.citations import Citation
from tornado_gate.types.value import Value, field

ServerToolKind = Literal["web_search", "web_fetch", "code_execution"]


class ServerTool(Value, frozen=True, kw_only=True):
    """The request of a `VendorTool`, in the words of all vendors: a tool of this `kind`.

    `max_uses` limits the calls in one response. `allowed_domains` and `blocked_domains` restrict the pages that are searched or
    read. `location` is the user's location: any of city, region, country (two letters) and timezone. `context_size` is the amount
    of results that the model reads: low, medium or high. `results`: the response shall contain the results, not only the call.
    `names` maps these fields to the caller's members of the tool where they differ; `others` are further members, which only the
    caller's format has.
    """

    kind: ServerToolKind
    max_uses: int | None = None
    allowed_domains: tuple[str, ...] = ()
    blocked_domains: tuple[str, ...] = ()
    location: Mapping[str, str] = field(default_factory=dict)
    context_size: str | None = None
    results: bool = True
    names: Mapping[str, str] = field(default_factory=dict)
    others: tuple[str, ...] = ()


class ServerToolUse(Value, frozen=True, kw_only=True):
    """The content of a part of a response about a server tool of this `kind`.

    `step`: the part has the call, the result, or both ("whole"). The call and the result of one use have the same `id`. `queries`
    belong to a web search, `url` to a web fetch, `code` and `output` to a code execution; `sources` are the pages that were found
    or read, `error` is the vendor's code of a failure.
    """

    id: str
    kind: ServerToolKind
    step: Literal["call", "result", "whole"] = "whole"
    queries: tuple[str, ...] = ()
    url: str = ""
    code: str = ""
    output: str = ""
    sources: tuple[Citation, ...] = ()
    error: str = ""
