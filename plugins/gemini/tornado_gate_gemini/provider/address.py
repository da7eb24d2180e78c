"""The upstream's base URL, and the URL of each model's methods. Pure."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from tornado_gate.errors import InvalidField, UpstreamError

DEFAULT_BASE_URL: Final = "https://generativelanguage.googleapis.com"

VERSION_PATH: Final = "v1beta"
MODELS_PATH: Final = "/models"
_COLLECTION_PREFIXES: Final = ("models/", "tunedModels/", "publishers/")


def make_resource_name(model: str) -> str:
    """The resource name of a model. A name with a collection (``tunedModels/mine``) is returned unchanged."""
    return model if model.startswith(_COLLECTION_PREFIXES) else f"models/{model}"


def build_resource_url(base_url: str, name: str) -> str:
    """The URL of a resource that the upstream named, e.g. ``models/veo/operations/abc``. Raises UpstreamError."""
    segments = name.split("/")
    if any(segment in ("", ".", "..") for segment in segments):
        raise UpstreamError("The upstream returned an invalid resource name.")
    return "/".join([base_url, *(quote(segment, safe="") for segment in segments)])


def build_url(base_url: str, model: str, method: str) -> str:
    """The URL of a model's method. Raises InvalidField for a name that would change the path."""
    segments = make_resource_name(model).split("/")
    if any(segment in ("", ".", "..") for segment in segments):
        raise InvalidField("model", "'model' must be a model name without empty, '.' or '..' path segments.")
    path = "/".join(quote(segment, safe="") for segment in segments)
    return f"{base_url}/{path}:{method}"
