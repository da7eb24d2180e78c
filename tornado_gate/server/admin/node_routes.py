"""/admin/v1/nodes: the gateways that share the database."""

from __future__ import annotations

from tornado_gate.server.admin.routing import AdminRequest, AdminRoute, Page
from tornado_gate.server.admin.scope import ADMINISTRATION
from tornado_gate.server.control.nodes import NodeView
from tornado_gate.server.control.nodes import list_nodes as read_nodes


async def list_nodes(request: AdminRequest) -> Page[NodeView]:
    nodes = tuple(await request.run(read_nodes, request.services.database))
    return Page(data=nodes, total=len(nodes))


ROUTES = [
    AdminRoute(
        method="GET", path="/nodes", limited=ADMINISTRATION, function=list_nodes, tag="admin: nodes", answer=Page[NodeView],
        summary="List the nodes that share the database, with their versions of the code and the configuration",
        description="Empty without PostgreSQL. A node that has stopped without a word is listed as silent for 10 minutes.",
    ),
]  # fmt: skip
