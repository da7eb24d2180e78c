"""The model that a request names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tornado_gate.errors import InvalidField, UnknownModel
from tornado_gate.pipeline.auth import check_model_members
from tornado_gate.pipeline.other_models import check_other_models
from tornado_gate.targets.routing import MAX_NAME_LENGTH
from tornado_gate.types import Caller, Route, WireRequest


def resolve_model_name(defaults: Mapping[str, str], wire: WireRequest, caller: Caller) -> str:
    """Return the model that the request names, or the default of its operation.

    Raises InvalidField when there is neither, or when the upstream could read a different name. Raises NotAllowed for a body
    with further models that the key does not allow. Raises UnknownModel for a name that is too long.
    """
    check_model_members(caller, wire.json)
    if caller.models:
        check_other_models(caller, wire.route.other_models, wire.json)
    model = _find_model_name(defaults, wire)
    if len(model) > MAX_NAME_LENGTH:  # checked before the name is stored anywhere
        raise UnknownModel(model)
    return model


def find_plain_name(caller: Caller, route: Route, arguments: Mapping[str, str], body: Mapping[str, Any]) -> str | None:
    """Return the model that a body or a path names in the usual way; None if `resolve_model_name` is needed.

    Raises the errors of `resolve_model_name`.
    """
    model = arguments.get("model") if route.model == "path" else body.get("model")
    if type(model) is not str or not model or len(model) > MAX_NAME_LENGTH or route.model in ("query", "none"):
        return None
    check_model_members(caller, body)
    if caller.models:
        check_other_models(caller, route.other_models, body)
    return model


def _find_model_name(defaults: Mapping[str, str], wire: WireRequest) -> str:
    route = wire.route
    if route.model == "path":
        return wire.path_arguments["model"]
    model = (wire.query if route.model == "query" else wire.json).get("model")
    if model is None:
        which = route.default(wire.json) if route.default else route.operation
        model = defaults.get(which) or defaults.get(route.operation)
        if model is None:
            message = "'model' is missing. Send the name of a model; GET /v1/models lists them."
            raise InvalidField("model", message, code="missing_required_parameter")
    if not isinstance(model, str) or not model:
        raise InvalidField("model", "'model' must be a string that names a model.")
    return model
