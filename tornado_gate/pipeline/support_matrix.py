"""The matrix of providers' operations, wire formats and lanes, computed from the declarations of plugins.

No request is sent; ``tornado-gate plugins check`` runs plugins. A cell shows whether requests are translated (common lane),
forwarded (verbatim lane), or both for a format with several routes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal

from tornado_gate.hookspecs import Capabilities
from tornado_gate.plugins.lanes import FormatLane
from tornado_gate.types import Route
from tornado_gate.types.value import Value

Support = Literal["", "common", "verbatim", "both"]
WORDS: Final[Mapping[Support, str]] = {
    "": "–",
    "common": "translated",
    "verbatim": "forwarded",
    "both": "translated or forwarded",
}
"""The name of each cell in tables."""
_OWN_OPERATIONS: Final = frozenset({"admin", "models"})
"""Operations that no provider serves."""


class SupportRow(Value, frozen=True, kw_only=True):
    """An operation of a provider. `cells` has, by format name, the way in which the format reaches it."""

    provider: str
    operation: str
    cells: Mapping[str, Support]


def list_support(providers: Mapping[str, Capabilities], formats: Iterable[FormatLane]) -> list[SupportRow]:
    """Return the rows of all operations of the providers, by provider and operation."""
    lanes = list(formats)
    return [
        SupportRow(
            provider=name, operation=operation,
            cells={lane.name: find_support(capabilities, lane, operation) for lane in lanes},
        )
        for name, capabilities in sorted(providers.items())
        for operation in sorted(capabilities.operations - _OWN_OPERATIONS)
    ]  # fmt: skip


def find_support(capabilities: Capabilities, lane: FormatLane, operation: str) -> Support:
    """Return how requests of a format for an operation reach a provider."""
    routes = [route for route in lane.routes if operation in route.operations and _calls_provider(route)]
    forwarded = [route for route in routes if _is_forwarded(capabilities, lane, route, operation)]
    if not routes:
        return ""
    if not forwarded:
        return "common"
    return "verbatim" if len(forwarded) == len(routes) else "both"


def _calls_provider(route: Route) -> bool:
    """Return whether requests of a route begin at a provider. Requests about stored objects, tasks and secrets do not."""
    return route.model != "none"


def _is_forwarded(capabilities: Capabilities, lane: FormatLane, route: Route, operation: str) -> bool:
    return lane.forwards and route.wire_format in capabilities.speaks and operation == route.operation
