"""Where an upstream is: a base address with exactly one version part. Pure."""

from __future__ import annotations

import re
from urllib.parse import urlsplit, urlunsplit

from tornado_gate_openai.endpoints import ENDS

_VERSION = re.compile(r"v[0-9]+(\.[0-9]+)?((alpha|beta)[0-9]*)?", re.IGNORECASE)


def normalised(base_url: str, version_path: str) -> str:
    """`base_url` without a slash at its end, and with `version_path` unless some segment of it is a version already.

    Whoever pastes the whole address of an endpoint is understood too. Raises ValueError for what is no address to send
    keys to.
    """
    address = urlsplit(base_url.strip())
    if address.scheme not in ("http", "https") or not address.hostname:
        raise ValueError("must be an http or https address such as https://upstream.example/v1")
    if address.query or address.fragment:
        raise ValueError("must end with its path: no '?' and no '#'")
    if address.username is not None or address.password is not None:
        raise ValueError("must hold no user and no password; the key belongs in api_key")
    path = address.path.rstrip("/")
    end = next((end for end in ENDS if path.endswith(end)), "")
    path = path.removesuffix(end).rstrip("/")
    segments = path.split("/")
    if not any(_VERSION.fullmatch(segment) for segment in segments):
        path = "/".join([*segments, *_missing(segments, version_path)])
    return urlunsplit((address.scheme, address.netloc, path, "", ""))


def _missing(segments: list[str], version_path: str) -> list[str]:
    """The end of `version_path` that `segments` do not end with: of ``openai/v1`` only ``v1`` when ``openai`` is there."""
    wanted = [segment for segment in version_path.split("/") if segment]
    for length in range(len(wanted), 0, -1):
        if segments[-length:] == wanted[:length]:
            return wanted[length:]
    return wanted
