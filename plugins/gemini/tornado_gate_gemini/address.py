"""Where the upstream is, and a path for each model. Pure."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from tornado_gate.errors import InvalidField, UpstreamError

DEFAULT_BASE_URL: Final = "https://generativelanguage.googleapis.com"

VERSION_PATH: Final = "v1beta"
MODELS_PATH: Final = "/models"
_COLLECTION_PREFIXES: Final = ("models/", "tunedModels/", "publishers/")


def make_resource_name(model: str) -> str:
    """The resource that a model's name stands for: one with a collection of its own (``tunedModels/mine``) keeps it."""
    return model if model.startswith(_COLLECTION_PREFIXES) else f"models/{model}"


def build_resource_url(base_url: str, name: str) -> str:
    """The address of a resource that the upstream has named, as ``models/veo/operations/abc``. Raises UpstreamError."""
    segments = name.split("/")
    if any(segment in ("", ".", "..") for segment in segments):
        raise UpstreamError("The upstream has named something that is no resource.")
    return "/".join([base_url, *(quote(segment, safe="") for segment in segments)])


def build_url(base_url: str, model: str, method: str) -> str:
    """The address of a method of a model. Raises InvalidField for a name that would lead to another path."""
    segments = make_resource_name(model).split("/")
    if any(segment in ("", ".", "..") for segment in segments):
        raise InvalidField("model", "'model' must name a model, not a path.")
    path = "/".join(quote(segment, safe="") for segment in segments)
    return f"{base_url}/{path}:{method}"
