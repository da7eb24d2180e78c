"""Where an upstream is: a base address with exactly one version part. Pure."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit, urlunsplit

MESSAGES: Final = "/messages"
COUNT: Final = "/messages/count_tokens"
DEFAULT: Final = "https://api.anthropic.com"
_VERSION: Final = re.compile(r"v[0-9]+(\.[0-9]+)?((alpha|beta)[0-9]*)?", re.IGNORECASE)


def normalised(base_url: str) -> str:
    """`base_url` without a slash at its end, and with ``v1`` unless some segment of it is a version already.

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
    path = address.path.rstrip("/").removesuffix(COUNT).removesuffix(MESSAGES).rstrip("/")
    if not any(_VERSION.fullmatch(segment) for segment in path.split("/")):
        path += "/v1"
    return urlunsplit((address.scheme, address.netloc, path, "", ""))
