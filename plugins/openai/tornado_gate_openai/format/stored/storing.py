"""Whether a response or a chat completion is stored, by the request's ``store`` and the section ``responses`` of conf."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tornado_gate.errors import InvalidField, RequestError
from tornado_gate.types import Call
from tornado_gate_openai.format.stored import store


def is_stored(call: Call, body: Mapping[str, Any]) -> bool:
    """Return whether the response to a checked body is stored, by the gateway or by the upstream."""
    match call.responses.store:
        case "never":
            return False
        case "ask":
            return body.get("store") is True
    return body.get("store") is not False


def apply_rules(call: Call, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of a checked responses body that conf's rules change: ``store``, or nothing.

    A ``store: true`` that conf overrules is reported as dropped. Raises InvalidField for a field that needs stored responses.
    """
    check_previous_response(call, body)
    if is_stored(call, body) or body.get("store") is False:
        return {}
    if body.get("background") is True:
        raise InvalidField(
            "background",
            f"'background' needs a stored response, but this gateway's configuration has 'responses: {{store: "
            f"{call.responses.store}}}'. {_BACKGROUND_HINTS[call.responses.store]}",
            code="unsupported_parameter",
        )
    if body.get("store") is True:
        call.drop_field("store")
    return {"store": False}


def check_previous_response(call: Call, body: Mapping[str, Any]) -> None:
    """Raise InvalidField for a ``previous_response_id`` where conf forbids stored responses."""
    previous = body.get(store.PREVIOUS_RESPONSE_ID)
    if call.responses.store == "never" and previous is not None:
        raise previous_response_error(call, previous)


_BACKGROUND_HINTS = {
    "ask": "Set 'store' to true.",
    "never": "Omit 'background', and set 'stream' to true to receive output early.",
}


def previous_response_error(call: Call, response_id: str) -> RequestError:
    """Return the error for an unknown ``previous_response_id``; it names the setting of conf that forbids all of them."""
    if call.responses.store != "never":
        return store.response_not_found_error(response_id, store.PREVIOUS_RESPONSE_ID)
    return InvalidField(
        store.PREVIOUS_RESPONSE_ID,
        "This gateway stores no responses (its configuration has 'responses: {store: never}'). Send the whole conversation in "
        "'input' instead of 'previous_response_id'.",
        code="previous_response_not_found",
    )


def apply_chat_rules(call: Call, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of a checked chat body that conf's rules change: ``store``, or nothing.

    The gateway stores no chat completions. A body without ``store`` stays unchanged, because not every upstream accepts it; the
    provider adds it for upstreams that store by default.
    """
    if body.get("store") is True and not is_stored(call, body):
        call.drop_field("store")
        return {"store": False}
    return {}
