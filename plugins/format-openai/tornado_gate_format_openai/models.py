"""The model list on the wire.

Source: openai-python 3.52, types/model.py. What conf says of a model beyond that (``display_name``, token limits, …) is
added under its own name.
"""

from __future__ import annotations

from typing import Any

from tornado_gate.types import Model, ModelList


def render_models(models: ModelList) -> dict[str, Any]:
    """The list, or the one model that was asked for."""
    if models.single:
        return _render_model(models.models[0])
    return {"object": "list", "data": [_render_model(model) for model in models.models]}


def _render_model(model: Model) -> dict[str, Any]:
    facts = {name: fact for name, fact in model.facts.items() if fact is not None}
    return {**facts, "id": model.id, "object": "model", "created": model.created, "owned_by": model.owner}
