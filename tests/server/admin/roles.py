"""Who may call the administration API: the table that a test checks with real requests.

``python -m tests.server.admin.roles`` writes it into docs/roles.md.
"""

from __future__ import annotations

from pathlib import Path

from tornado_gate.server.admin.routes import ROUTES

PAGE = Path(__file__).parents[3] / "docs" / "roles.md"

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
    "administrator, `operations: [admin]`": (0, ""),
    "administrator": (0, ""),
}
"""Status and code of the answer to each caller; 0: the route answers."""

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


def render() -> str:
    """The section: what each caller gets, and who may call each route."""
    lines = ["| caller | answer | code |", "|---|---|---|"]
    lines += [
        f"| {name} | {status or 'the route answers'} | {f'`{code}`' if code else ''} |"
        for name, (status, code) in CALLERS.items()
    ]
    groups = ("no valid key", "not an administrator", "administrator limited to other operations", "administrator")
    lines += ["", f"| route | {' | '.join(groups)} |", "|---|---|---|---|---|"]
    lines += [f"| `{route.method} {route.whole_path}` | 401 | 403 | 403 | yes |" for route in ROUTES]
    return HEADING + _INTRODUCTION + "\n".join(lines) + "\n"


def replace_section(page: str) -> str:
    """The page with the section at its end."""
    return page.partition(HEADING)[0].rstrip() + "\n\n" + render()


if __name__ == "__main__":
    PAGE.write_text(replace_section(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
