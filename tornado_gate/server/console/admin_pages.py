"""The pages of the console for administrators. Patterns are tried in order, so /console/users/invitations comes before
an id.
"""

from __future__ import annotations

from tornado_gate.server.console import (
    alert_pages,
    audit_pages,
    invitation_pages,
    limit_pages,
    model_change_pages,
    model_pages,
    plugin_pages,
    plugin_settings_page,
    provider_pages,
    request_pages,
    team_pages,
    user_pages,
)
from tornado_gate.server.console.base import ConsoleHandler

ROUTES: list[tuple[str, type[ConsoleHandler]]] = [
    *model_pages.ROUTES,
    *model_change_pages.ROUTES,
    *plugin_pages.ROUTES,
    *plugin_settings_page.ROUTES,
    *provider_pages.ROUTES,
    *invitation_pages.ROUTES,
    *user_pages.ROUTES,
    *team_pages.ROUTES,
    *limit_pages.ROUTES,
    *request_pages.ROUTES,
    *alert_pages.ROUTES,
    *audit_pages.ROUTES,
]
