"""Who may call the administration API: the table that a test checks with real requests. Writes docs/roles-api.md.

``python -m tests.server.admin.roles`` writes the page.
"""

from __future__ import annotations

from pathlib import Path

from tornado_gate.server.admin.routes import ROUTES

PAGE = Path(__file__).parents[3] / "docs" / "roles-api.md"

CALLERS: dict[str, tuple[int, str]] = {
    "no key": (401, "missing_api_key"),
    "unknown key": (401, "invalid_api_key"),
    "two keys": (401, "ambiguous_api_key"),
    "revoked key": (401, "invalid_api_key"),
    "expired key": (401, "invalid_api_key"),
    "key of a disabled administrator": (401, "invalid_api_key"),
    "member": (403, "administrator_required"),
    "member, `operations: [admin]`": (403, "administrator_required"),
    "administrator's key with role member": (403, "administrator_required"),
    "key of a former administrator": (403, "administrator_required"),
    "administrator, `operations: [chat]`": (403, "not_allowed"),
    "administrator, `operations: [admin]`": (0, ""),
    "administrator": (0, ""),
}
"""Status and code of the answer to each caller; 0: the route answers."""

_INTRODUCTION = """\
# Who may use the API

This page is written by `python -m tests.server.admin.roles`; a test sends each request of the table. [roles.md](roles.md) has the
pages of the console.

| routes | who |
|---|---|
| routes of wire formats, `/v1/_explain` | every key, within its models, operations, addresses, limits and budget |
| tasks, stored responses, conversations | keys of the account that created them; for others they do not exist: 404 |
| `/media/…`, `/videos/…` | who has the signed address, until it expires |
| `/`, `/healthz`, `/readyz`, `/openapi.json`, `/docs` | everybody |
| `/metrics` | callers on this machine, or with `server.metrics_token`, or on `server.metrics_port` |
| `/console/` | people with a session; administrators see more pages |
| `/admin/v1/…` | keys with `role: administrator`; if the key has `operations`, `admin` must be among them |

A path that is not in a table of routes has no handler: it is a 404, below `/admin/v1` only after key and role were checked.
A session of the console gives no access to the API, and a key gives none to the console.

## The administration API

"""


def render() -> str:
    """The page."""
    shown = {name: str(status or "yes") for name, (status, _) in CALLERS.items()}
    lines = ["| caller | answer | code |", "|---|---|---|"]
    lines += [
        f"| {name} | {status or 'the route answers'} | {f'`{code}`' if code else ''} |"
        for name, (status, code) in CALLERS.items()
    ]
    lines += ["", f"| route | {' | '.join(shown)} |", f"|---|{'---|' * len(shown)}"]
    lines += [f"| `{route.method} {route.whole_path}` | {' | '.join(shown.values())} |" for route in ROUTES]
    return _INTRODUCTION + "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
