"""The model list in the wire format, with pagination.

Source: anthropic-python 2.11, types/model_info.py, types/model_list_params.py and pagination.py (`SyncPage`).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from tornado_gate.errors import InvalidField
from tornado_gate.types import Model, ModelList, ModelsRequest, WireRequest
from tornado_gate.types.value import Value

DEFAULT_LIMIT: Final = 20
MAX_LIMIT: Final = 1000


class AnthropicModelsPage(Value, frozen=True, kw_only=True):
    """The requested page: `limit` models after `after_id` or before `before_id`, or the first ones."""

    limit: int = DEFAULT_LIMIT
    after_id: str | None = None
    before_id: str | None = None


def parse_models_request(wire: WireRequest) -> ModelsRequest:
    """Parse the path and the query. Raises InvalidField."""
    limit = DEFAULT_LIMIT
    text = wire.query.get("limit")
    if text is not None:
        limit = int(text) if text.isascii() and text.isdigit() and len(text) < 5 else 0
        if not 1 <= limit <= MAX_LIMIT:
            raise InvalidField("limit", f"'limit' must be an integer from 1 to {MAX_LIMIT}, not '{text[:50]}'.")
    after_id, before_id = wire.query.get("after_id"), wire.query.get("before_id")
    if after_id is not None and before_id is not None:
        raise InvalidField("before_id", "'before_id' cannot be combined with 'after_id'. Send one of them.")
    page = AnthropicModelsPage(limit=limit, after_id=after_id or None, before_id=before_id or None)
    return ModelsRequest(model=wire.path_arguments.get("model"), reply_state=page)


def render_models(models: ModelList, request: ModelsRequest) -> dict[str, Any]:
    """Return the requested model, or a page of models.

    Raises InvalidField when `after_id` or `before_id` is not in the list.
    """
    if models.single:
        return _render_model(models.models[0])
    page = request.reply_state if isinstance(request.reply_state, AnthropicModelsPage) else AnthropicModelsPage()
    listed = models.models
    start, end = 0, page.limit
    if page.after_id is not None:
        start = _find_position(listed, page.after_id, "after_id") + 1
        end = start + page.limit
    elif page.before_id is not None:
        end = _find_position(listed, page.before_id, "before_id")
        start = max(0, end - page.limit)
    shown = listed[start:end]
    return {
        "data": [_render_model(model) for model in shown],
        "has_more": start > 0 if page.before_id is not None else end < len(listed),
        "first_id": shown[0].id if shown else None,
        "last_id": shown[-1].id if shown else None,
    }


def _find_position(models: Sequence[Model], model_id: str, name: str) -> int:
    for index, model in enumerate(models):
        if model.id == model_id:
            return index
    raise InvalidField(
        name, f"'{name}' is not the id of a model in this list. Use 'first_id' or 'last_id' of an earlier page."
    )


def _render_model(model: Model) -> dict[str, Any]:
    """Return one model. Unknown facts are null, which the vendor's type allows; each listed model is "active"."""
    facts = model.facts
    return {
        "type": "model",
        "id": model.id,
        "display_name": facts.get("display_name") or model.id,
        "created_at": datetime.fromtimestamp(model.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "lifecycle": "active",
        "max_input_tokens": facts.get("input_token_limit"),
        "max_tokens": facts.get("output_token_limit"),
        "capabilities": None,
        "line": None,
        "deprecated_at": None,
        "retires_at": None,
    }
