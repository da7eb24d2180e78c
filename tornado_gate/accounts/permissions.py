"""The models that a key allows."""

from __future__ import annotations

from tornado_gate.config.globs import matches_model
from tornado_gate.errors import NotAllowed
from tornado_gate.types import Caller


def may_use_model(caller: Caller, model: str) -> bool:
    """Return whether one of the key's globs matches the name of the model. A key without globs may use every model."""
    return not caller.models or matches_model(caller.models, model)


def check_model(caller: Caller, model: str) -> None:
    """Raises NotAllowed when no glob of the key matches `model`."""
    if not may_use_model(caller, model):
        message = (
            f"This API key does not allow the model '{model[:100]}'. GET /v1/models lists the models that it allows."
        )
        raise NotAllowed(message, param="model", code="model_not_allowed")
