"""/admin/v1/limits/overrides: temporary limits that administrators set."""

from __future__ import annotations

from tornado_gate.accounts.limit_overrides import Override
from tornado_gate.codec.durations import parse_moment
from tornado_gate.errors import InvalidField
from tornado_gate.server.admin.bodies import LimitOverrideSchema
from tornado_gate.server.admin.routing import AdminRequest, AdminRoute, Deleted, Page
from tornado_gate.server.admin.scope import ADMINISTRATION, check_override

_LIMITS = "admin: limits"


async def list_overrides(request: AdminRequest) -> Page[Override]:
    overrides = await request.run(request.services.accounts.limit_overrides.list_all)
    return Page(data=tuple(overrides), total=len(overrides))


async def create_override(request: AdminRequest) -> Override:
    body = request.body
    check_override(request.key, body["bound"], value=body.get("value"), factor=body.get("factor"))
    made = await request.run(
        request.services.accounts.limit_overrides.create,
        body["kind"],
        body.get("subject", ""),
        body["bound"],
        request.actor,
        value=body.get("value"),
        factor=body.get("factor"),
        until=_parse_end(body["until"]),
    )
    await request.services.gate.keys.check()
    return made


def _parse_end(until: float | str) -> float:
    if not isinstance(until, str):
        return float(until)
    try:
        return parse_moment(until)
    except ValueError as error:
        raise InvalidField("until", f"'until' is wrong: {error}.") from None


async def end_override(request: AdminRequest) -> Deleted:
    await request.run(request.services.accounts.limit_overrides.end, request.id, request.actor)
    await request.services.gate.keys.check()
    return Deleted(id=request.id)


ROUTES = [
    AdminRoute(
        method="GET", path="/limits/overrides", function=list_overrides, tag=_LIMITS, answer=Page[Override],
        limited=ADMINISTRATION,
        summary="List the temporary limits", description="Those that have not ended, newest first.",
    ),
    AdminRoute(
        method="POST", path="/limits/overrides", limited=ADMINISTRATION, function=create_override, tag=_LIMITS, answer=Override,
        summary="Change a limit or budget temporarily", description="It applies in all processes within a second.",
        body=LimitOverrideSchema,
        example={"kind": "gateway", "bound": "requests_per_minute", "value": 60000, "until": "2h"},
    ),
    AdminRoute(
        method="DELETE", path="/limits/overrides/{id}", function=end_override, tag=_LIMITS, answer=Deleted,
        limited=ADMINISTRATION,
        summary="End a temporary limit",
    ),
]  # fmt: skip
