"""The model list in the wire format.

Source: openai-python 3.52, types/model.py. Further facts of a model in conf (``display_name``, token limits, …) are added under
their names in conf.
"""

from __future__ import annotations

from typing import Any

from tornado_gate.types import Model, ModelList


def render_models(models: ModelList) -> dict[str, Any]:
    """Return the list, or the requested model."""
    if models.single:
        return _render_model(models.models[0])
    return {"object": "list", "data": [_render_model(model) for model in models.models]}


def _render_model(model: Model) -> dict[str, Any]:
    facts = {name: fact for name, fact in model.facts.items() if fact is not None}
    return {**facts, "id": model.id, "object": "model", "created": model.created, "owned_by": model.owner}
