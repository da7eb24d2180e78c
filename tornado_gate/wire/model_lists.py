"""The model lists of vendors: one GET request, and the members that name a model and its context."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tornado_gate.errors import UpstreamError
from tornado_gate.http import upstream
from tornado_gate.types import Call, UpstreamRequest
from tornado_gate.types.vendors import MOST_LISTED_MODELS, ListedModel


async def fetch_models(
    call: Call,
    path: str,
    headers: Mapping[str, str],
    *,
    members: tuple[str, ...],
    name: str = "id",
    contexts: tuple[str, ...] = (),
) -> list[ListedModel]:
    """Return the models that the upstream lists at `path` below its base URL.

    The list is the first of `members` that the body has, or the body itself. Each model has its name in the member `name` and its
    context in one of `contexts`. Raises UpstreamError.
    """
    kept = {key: value for key, value in headers.items() if key.lower() != "content-type"}
    request = UpstreamRequest(method="GET", url=call.target.base_url + path, headers=kept)
    body = await (await upstream.call_upstream(call, request)).read_json()
    rows = next((body[key] for key in members if key in body), None) if isinstance(body, Mapping) else body
    if not isinstance(rows, list):
        provider = call.target.provider
        raise UpstreamError(
            f"The provider '{provider}' answered without a list of models.", advice="Check its base_url."
        )
    named = (row for row in rows[:MOST_LISTED_MODELS] if isinstance(row, Mapping) and isinstance(row.get(name), str))
    return [ListedModel(name=row[name], context_tokens=_find_context(row, contexts)) for row in named]


def _find_context(row: Mapping[str, Any], contexts: tuple[str, ...]) -> int | None:
    values = (row.get(member) for member in contexts)
    return next((value for value in values if type(value) is int and value > 0), None)
