"""The headers of CORS, which allow web pages of other origins to use the API. No I/O.

They are sent only for routes that take a key, for stored files and for /openapi.json. They are never sent for the console, whose
cookie must stay with its own pages, for /admin/v1, and for operator pages. Credentials are never allowed: a page's script sends
its key in a header.

Source: https://fetch.spec.whatwg.org/#http-cors-protocol (read 2026-11-22).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tornado_gate.config.model import CorsConfig

ANYBODY = "*"
EXPOSED = ", ".join(
    (
        *("x-request-id", "x-gate-provider", "x-gate-model", "x-gate-loss", "x-gate-attempts", "x-gate-cost"),
        *(
            f"x-ratelimit-{field}-{kind}"
            for kind in ("requests", "tokens")
            for field in ("limit", "remaining", "reset")
        ),
        *("retry-after", "etag", "content-disposition", "content-range", "accept-ranges"),
    )
)
"""The headers of responses that a script may read."""
METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE"
_PRIVATE_PATHS = ("/console", "/admin", "/docs", "/metrics", "/healthz", "/readyz")
_PRIVATE_NAMES = frozenset(path[1:] for path in _PRIVATE_PATHS)
_HEADER_NAMES = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+(?:\s*,\s*[A-Za-z0-9!#$%&'*+.^_`|~-]+)*")
_MAX_NAMES = 2000


def is_allowed(cors: CorsConfig, origin: str) -> bool:
    """Return whether a page of this origin may use the API."""
    return ANYBODY in cors.origins or origin.lower() in cors.origins


def make_cors_headers(cors: CorsConfig, origin: str) -> dict[str, str]:
    """Return the headers of a response to a request with this Origin, "" for none.

    The response depends on it, so `Vary` names it.
    """
    if ANYBODY in cors.origins:
        return {"Access-Control-Allow-Origin": ANYBODY, "Access-Control-Expose-Headers": EXPOSED}
    if not origin or not is_allowed(cors, origin):
        return {"Vary": "Origin"}
    return {
        "Access-Control-Allow-Origin": origin,
        "Access-Control-Expose-Headers": EXPOSED,
        "Vary": "Origin",
    }


def is_preflight(method: str, path: str, headers: Mapping[str, str], cors: CorsConfig) -> bool:
    """Return whether a request is a browser's preflight for a page. `headers` ignore case or are lower-case."""
    return (
        method == "OPTIONS"
        and bool(cors.origins)
        and "origin" in headers
        and "access-control-request-method" in headers
        and not is_private(path)
    )


def is_private(path: str) -> bool:
    """Return whether a path is never used by pages of other origins."""
    return path.startswith(_PRIVATE_PATHS) and path.partition("/")[2].partition("/")[0] in _PRIVATE_NAMES


def make_preflight_headers(cors: CorsConfig, headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of the response to a preflight request of an allowed origin, which may send any header."""
    requested_headers = headers.get("access-control-request-headers", "").strip()
    is_sane = len(requested_headers) <= _MAX_NAMES and _HEADER_NAMES.fullmatch(requested_headers) is not None
    answer = {
        **make_cors_headers(cors, headers["origin"]),
        "Access-Control-Allow-Methods": METHODS,
        "Access-Control-Max-Age": str(int(cors.seconds)),
        "Vary": "Origin, Access-Control-Request-Headers",
    }
    return {**answer, "Access-Control-Allow-Headers": requested_headers} if is_sane else answer
