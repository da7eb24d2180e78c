"""The base URL of a provider entry: its normal form, and its comparison with URLs that receive the provider's key. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final
from urllib.parse import SplitResult, urlsplit, urlunsplit

from tornado_gate.errors import ConfigError

_EXAMPLE: Final = "https://upstream.example/v1"
_VERSION: Final = re.compile(r"v[0-9]+(\.[0-9]+)?((alpha|beta)[0-9]*)?", re.IGNORECASE)


def normalize_base_url(base_url: str, version_path: str, *, default: str = "", endpoints: Collection[str] = ()) -> str:
    """Return `base_url` (or `default` if it is empty) without a trailing slash and with `version_path` exactly once.

    The version is added unless a segment of the path already is a version. `endpoints` are paths of the vendor's endpoints
    ("/chat/completions"): if the URL ends with one, it is removed. Raises ConfigError at ``base_url``.
    """
    parts = _parse((base_url or default).strip(), default or _EXAMPLE)
    path = parts.path.rstrip("/")
    endpoint = next((endpoint for endpoint in endpoints if path.endswith(endpoint)), "")
    segments = path.removesuffix(endpoint).rstrip("/").split("/")
    if not any(_VERSION.fullmatch(segment) for segment in segments):
        segments += _find_missing_segments(segments, version_path)
    return urlunsplit((parts.scheme, parts.netloc, "/".join(segments), "", ""))


def _parse(url: str, example: str) -> SplitResult:
    """Split a URL that keys may be sent to. Raises ConfigError for any other URL."""
    try:
        parts = urlsplit(url)
        fault = _find_fault(parts, example)
    except ValueError:  # an unclosed bracket or a port that is not a number
        fault = _no_address(example)
    if fault:
        raise ConfigError([(("base_url",), fault)])
    return parts


def _find_fault(parts: SplitResult, example: str) -> str:
    """Return the fault of the URL, or "" if it is allowed. Raises ValueError for an invalid port."""
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
        return _no_address(example)
    if parts.query or parts.fragment:
        return "must not contain a query ('?') or a fragment ('#')"
    if parts.username is not None or parts.password is not None:
        return "must not contain a user or password; put the key into api_key"
    return ""


def _no_address(example: str) -> str:
    return f"must be an http or https URL such as {example}"


def _find_missing_segments(segments: list[str], version_path: str) -> list[str]:
    """Return the segments of `version_path` that `segments` lack: only ``v1`` of ``openai/v1`` after ``openai``."""
    version_segments = [segment for segment in version_path.split("/") if segment]
    for length in range(len(version_segments), 0, -1):
        if segments[-length:] == version_segments[:length]:
            return version_segments[length:]
    return version_segments


def is_same_origin(url: str, base_url: str) -> bool:
    """Return whether scheme, host and port are equal, so that the key of `base_url` may be sent to `url`. ws counts as http."""
    try:
        return _parse_origin(url) == _parse_origin(base_url)
    except ValueError:  # an invalid port or an unclosed bracket
        return False


def _parse_origin(url: str) -> tuple[str, str, int | None, str | None]:
    """Return scheme, host, port and user."""
    parts = urlsplit(url)
    scheme = {"ws": "http", "wss": "https"}.get(parts.scheme, parts.scheme)
    port = parts.port if parts.port is not None else {"http": 80, "https": 443}.get(scheme)
    return scheme, parts.hostname or "", port, parts.username
