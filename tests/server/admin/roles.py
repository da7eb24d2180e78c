"""Who may call the administration API: the table that a test checks with real requests.

``python -m tests.server.admin.roles`` writes it into docs/reference/roles.md.
"""

from __future__ import annotations

from pathlib import Path

from tornado_gate.server.admin.routes import ROUTES
from tornado_gate.server.admin.routing import AdminRoute
from tornado_gate.server.admin.scope import Limitation

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "roles.md"

CALLERS: dict[str, tuple[int, str]] = {
    "no key": (401, "missing_api_key"),
    "unknown key": (401, "invalid_api_key"),
    "two keys": (401, "ambiguous_api_key"),
    "revoked key": (401, "invalid_api_key"),
    "expired key": (401, "invalid_api_key"),
    "key of a disabled administrator": (401, "invalid_api_key"),
    "key that a disabled administrator made": (401, "invalid_api_key"),
    "key that a former administrator rotated": (401, "invalid_api_key"),
    "member": (403, "administrator_required"),
    "member, `operations: [admin]`": (403, "administrator_required"),
    "administrator's key with role member": (403, "administrator_required"),
    "key of a former administrator": (403, "administrator_required"),
    "administrator, `operations: [chat]`": (403, "not_allowed"),
    "administrator": (0, ""),
}
"""Status and code of the answer to each caller; 0: the route answers."""

LIMITED: dict[str, frozenset[Limitation]] = {
    "limited to a team": frozenset({"team"}),
    "limited to models": frozenset({"models"}),
    "limited to operations": frozenset({"operations"}),
    "limited to administration": frozenset({"administration"}),
}
"""Administrators' keys: with `team`, with `models`, with `operations: [admin, chat]`, with `operations: [admin]`."""

HEADING = "## Routes of the API\n"
_INTRODUCTION = """
This section is written by `python -m tests.server.admin.roles`; a test sends each request of the tables.

| routes | who |
|---|---|
| routes of wire formats, `/v1/_explain` | every key, within its models, operations, addresses, limits and budget |
| tasks, stored responses, conversations | keys of the account that created them; for others they do not exist: 404 |
| `/media/…`, `/videos/…` | who has the signed address, until it expires |
| `/`, `/healthz`, `/readyz`, `/openapi.json`, `/docs` | everybody |
| `/metrics` | callers on this machine, or with `server.metrics_token`, or on `server.metrics_port` |
| `/admin/v1/…` | keys with `role: administrator`; if the key has `operations`, `admin` must be among them |

A path that is in no table of routes has no handler: it is a 404, below `/admin/v1` only after key and role were checked.
A session of the console gives no access to the API, and a key gives none to the console.

### The administration API

"""


_LIMITED_TEXT = """
A key with the role administrator and a `team`, `models` or `operations` administers only these. `own`: the route returns
objects within the limits of the key; all others do not exist for it. `403`: with the code `outranks_maker`.
`all`: a key with `operations: [admin]` is limited to no team and no model; it sees everything, and gives no one rights. Several
limitations add up. The models of the key's team count as the key's.

- **A team**: its keys, its requests and their sums, its members, and invitations of members to it. Others change its bounds.
- **Models, operations**: keys that allow no more, and requests with these models and operations.
- A limited key makes and rotates keys of no other account, and no key that allows more than itself. No key, limited or not, sets
  a limit or a budget higher than its own.
"""


def render() -> str:
    """The section: what each caller gets, and who may call each route."""
    lines = ["| caller | answer | code |", "|---|---|---|"]
    lines += [
        f"| {name} | {status or 'the route answers'} | {f'`{code}`' if code else ''} |"
        for name, (status, code) in CALLERS.items()
    ]
    groups = ("no valid key", "not an administrator", "administrator, other operations", *LIMITED, "administrator")
    lines += [_LIMITED_TEXT, f"| route | {' | '.join(groups)} |", "|---|" + "---|" * len(groups)]
    lines += [
        f"| `{route.method} {route.whole_path}` | 401 | 403 | 403 | {' | '.join(_list_cells(route))} | yes |"
        for route in ROUTES
    ]
    return HEADING + _INTRODUCTION + "\n".join(lines) + "\n"


def _list_cells(route: AdminRoute) -> list[str]:
    return [
        "403" if not limitations <= route.limited else "all" if limitations == {"administration"} else "own"
        for limitations in LIMITED.values()
    ]


def replace_section(page: str) -> str:
    """The page with the section at its end."""
    return page.partition(HEADING)[0].rstrip() + "\n\n" + render()


if __name__ == "__main__":
    PAGE.write_text(replace_section(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
