"""/admin/v1/alerts: what an operator should know now. The same causes raise the messages of `alerts`."""

from __future__ import annotations

from typing import Literal

from tornado_gate.server.admin.routing import AdminRequest, AdminRoute, Page
from tornado_gate.server.admin.scope import ADMINISTRATION
from tornado_gate.types.value import Value


class PresentAlert(Value, frozen=True, kw_only=True):
    """A cause that exists now. `kind` is one of the events that `alerts` of conf names."""

    kind: str
    severity: Literal["warning", "critical"]
    title: str
    message: str


async def list_alerts(request: AdminRequest) -> Page[PresentAlert]:
    from tornado_gate.alerts import present  # conf may have no alerts

    gate, rejected = request.services.gate, request.services.configuration.rejected
    alerts = await present.list_present(gate, rejected.faults if rejected else (), request.run)
    rows = tuple(
        PresentAlert(kind=alert.kind, severity=alert.severity, title=alert.title, message=alert.message)
        for alert in alerts
    )
    return Page(data=rows, total=len(rows))


ROUTES = [
    AdminRoute(
        method="GET", path="/alerts", limited=ADMINISTRATION, function=list_alerts, tag="admin: alerts",
        answer=Page[PresentAlert], summary="List what needs attention now, critical causes first",
        description="Budgets that are nearly used, open circuits, refused keys of providers, a rejected configuration, expiring "
        "keys and a full spool. They are listed even if `alerts` of the configuration has no receiver. Circuits are those of "
        "the process that answers.",
    ),
]  # fmt: skip
