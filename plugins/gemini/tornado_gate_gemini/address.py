"""Where the upstream is: a base address with exactly one version part, and a path for each model. Pure."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, urlsplit, urlunsplit

from tornado_gate.errors import InvalidField, UpstreamError

DEFAULT: Final = "https://generativelanguage.googleapis.com"

_VERSION: Final = re.compile(r"v[0-9]+((alpha|beta)[0-9]*)?", re.IGNORECASE)
_VERSION_PART: Final = "v1beta"
_COLLECTIONS: Final = ("models/", "tunedModels/", "publishers/")


def normalised(base_url: str) -> str:
    """`base_url`, or Google's, without a slash at its end and with ``v1beta`` unless some segment is a version already.

    Raises ValueError for what is no address to send keys to.
    """
    address = urlsplit((base_url or DEFAULT).strip())
    if address.scheme not in ("http", "https") or not address.hostname:
        raise ValueError("must be an http or https address such as https://upstream.example/v1beta")
    if address.query or address.fragment:
        raise ValueError("must end with its path: no '?' and no '#'")
    if address.username is not None or address.password is not None:
        raise ValueError("must hold no user and no password; the key belongs in api_key")
    path = address.path.rstrip("/").removesuffix("/models")
    if not any(_VERSION.fullmatch(segment) for segment in path.split("/")):
        path = f"{path}/{_VERSION_PART}"
    return urlunsplit((address.scheme, address.netloc, path, "", ""))


def resource(model: str) -> str:
    """The resource that a model's name stands for: one with a collection of its own (``tunedModels/mine``) keeps it."""
    return model if model.startswith(_COLLECTIONS) else f"models/{model}"


def resource_url(base_url: str, name: str) -> str:
    """The address of a resource that the upstream has named, as ``models/veo/operations/abc``. Raises UpstreamError."""
    segments = name.split("/")
    if any(segment in ("", ".", "..") for segment in segments):
        raise UpstreamError("The upstream has named something that is no resource.")
    return "/".join([base_url, *(quote(segment, safe="") for segment in segments)])


def url_of(base_url: str, model: str, method: str) -> str:
    """The address of a method of a model. Raises InvalidField for a name that would lead to another path."""
    segments = resource(model).split("/")
    if any(segment in ("", ".", "..") for segment in segments):
        raise InvalidField("model", "'model' must name a model, not a path.")
    path = "/".join(quote(segment, safe="") for segment in segments)
    return f"{base_url}/{path}:{method}"
