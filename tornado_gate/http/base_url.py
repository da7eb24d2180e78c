"""The base URL of a provider entry: normalised once, and compared with every URL that a key may go to. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final
from urllib.parse import SplitResult, urlsplit, urlunsplit

from tornado_gate.errors import ConfigError

_EXAMPLE: Final = "https://upstream.example/v1"
_VERSION: Final = re.compile(r"v[0-9]+(\.[0-9]+)?((alpha|beta)[0-9]*)?", re.IGNORECASE)


def normalize_base_url(base_url: str, version_path: str, *, default: str = "", endpoints: Collection[str] = ()) -> str:
    """`base_url`, or `default` where conf gives none, without a slash at its end and with `version_path` exactly once.

    The version is added unless some segment of the path is a version already. `endpoints` are the paths of the vendor's own
    endpoints ("/chat/completions"): the address of an endpoint means its base. Raises ConfigError at ``base_url``.
    """
    parts = _parse((base_url or default).strip(), default or _EXAMPLE)
    path = parts.path.rstrip("/")
    endpoint = next((endpoint for endpoint in endpoints if path.endswith(endpoint)), "")
    segments = path.removesuffix(endpoint).rstrip("/").split("/")
    if not any(_VERSION.fullmatch(segment) for segment in segments):
        segments += _find_missing_segments(segments, version_path)
    return urlunsplit((parts.scheme, parts.netloc, "/".join(segments), "", ""))


def _parse(url: str, example: str) -> SplitResult:
    """The parts of a URL that keys may be sent to. Raises ConfigError for any other."""
    try:
        parts = urlsplit(url)
        fault = _find_fault(parts, example)
    except ValueError:  # a bracket that is not closed, a port that is no number
        fault = _no_address(example)
    if fault:
        raise ConfigError([(("base_url",), fault)])
    return parts


def _find_fault(parts: SplitResult, example: str) -> str:
    """What is wrong, "" for what may be used. Raises ValueError for a port that is none."""
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
        return _no_address(example)
    if parts.query or parts.fragment:
        return "must end with its path: no '?' and no '#'"
    if parts.username is not None or parts.password is not None:
        return "must hold no user and no password; the key belongs in api_key"
    return ""


def _no_address(example: str) -> str:
    return f"must be an http or https address such as {example}"


def _find_missing_segments(segments: list[str], version_path: str) -> list[str]:
    """The end of `version_path` that `segments` do not end with: of ``openai/v1`` only ``v1`` when ``openai`` is there."""
    wanted = [segment for segment in version_path.split("/") if segment]
    for length in range(len(wanted), 0, -1):
        if segments[-length:] == wanted[:length]:
            return wanted[length:]
    return wanted


def is_same_origin(url: str, base_url: str) -> bool:
    """Whether both have the same scheme, host and port, so that the key for `base_url` may go to `url`; ws counts as http."""
    try:
        return _parse_origin(url) == _parse_origin(base_url)
    except ValueError:  # no port, or a bracket that is not closed
        return False


def _parse_origin(url: str) -> tuple[str, str, int | None, str | None]:
    """Scheme, host, port and what stands before an ``@``."""
    parts = urlsplit(url)
    scheme = {"ws": "http", "wss": "https"}.get(parts.scheme, parts.scheme)
    port = parts.port if parts.port is not None else {"http": 80, "https": 443}.get(scheme)
    return scheme, parts.hostname or "", port, parts.username
