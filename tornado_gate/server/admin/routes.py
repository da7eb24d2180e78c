"""All routes of the administration API. A route outside of this table does not exist."""

from __future__ import annotations

from tornado_gate.server.admin import (
    alert_routes,
    configuration_routes,
    key_routes,
    limit_routes,
    node_routes,
    state_routes,
    tape_routes,
    team_routes,
    usage_routes,
    user_routes,
)
from tornado_gate.server.admin.routing import AdminTable

ROUTES = [
    *key_routes.ROUTES,
    *usage_routes.ROUTES,
    *user_routes.ROUTES,
    *team_routes.ROUTES,
    *limit_routes.ROUTES,
    *state_routes.ROUTES,
    *node_routes.ROUTES,
    *alert_routes.ROUTES,
    *configuration_routes.ROUTES,
    *tape_routes.ROUTES,
]
TABLE = AdminTable(ROUTES)
