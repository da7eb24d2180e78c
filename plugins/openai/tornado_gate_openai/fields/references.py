"""The ids in request bodies that name objects of an upstream account: responses, items, files, conversations, and others.

Bodies are not checked yet here: values of a wrong type are no references. The parsed body is walked, not its text: its strings
may be long, and the names of its members may be escaped in the text.

Source: openai-python 3.52, types/responses/response_create_params.py, response_input_item_param.py and tool_param.py,
types/chat/chat_completion_*_param.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from tornado_gate.types import Call, ObjectReference, WireRequest
from tornado_gate_openai.format.stored import conversation_store, store, storing
from tornado_gate_openai.wire.responses import get_item_type, get_response_id, has_made_id, is_self_contained

_KIND_OF_MEMBER: Final[Mapping[str, str]] = {
    "container": "container",
    "container_id": "container",
    "file_id": "file",
    "file_ids": "file",
    "skill_id": "skill",
    "vector_store_ids": "vector_store",
}
"""By member name: the kind of the ids in a string or in an array of strings."""
_NO_REFERENCES_BELOW: Final = frozenset(
    ("annotations", "arguments", "logprobs", "metadata", "outputs", "parameters", "results", "schema")
)
"""Members with data of the client, with JSON schemas, or with output that an upstream does not look up."""
_VENDORS_SKILLS: Final = "openai-"

References = list[ObjectReference]


def list_response_references(call: Call, wire: WireRequest) -> References:
    """Return the references in the body of ``POST /v1/responses``."""
    body = wire.json
    found: References = []
    if body.get(store.PREVIOUS_RESPONSE_ID) is not None and body.get("conversation") is not None:
        return found  # a 400 on every lane
    if isinstance(previous := body.get(store.PREVIOUS_RESPONSE_ID), str) and previous:
        found.append(_refer_to_response(call, previous))
    for name in ("conversation", "prompt"):
        value = body.get(name)
        identity = value.get("id") if isinstance(value, dict) else value
        if isinstance(identity, str):
            param = name if value is identity else f"{name}.id"
            memory_name = conversation_store.make_head(identity) if name == "conversation" else ""
            found.append(ObjectReference(kind=name, id=identity, param=param, memory_name=memory_name))
    items = body.get("input")
    for number, item in enumerate(items if isinstance(items, list) else ()):
        if isinstance(item, dict) and isinstance(item.get("id"), str) and _is_looked_up(item):
            found.append(_refer_to_item(item["id"], f"input.{number}.id"))
    _walk(body, "", found)
    return found


def _is_looked_up(item: dict[str, Any]) -> bool:
    """Whether an upstream would look up the item by its id. One that the gateway made is not sent: see `made_items`."""
    return not is_self_contained(item) and (get_item_type(item) == "item_reference" or not has_made_id(item))


def list_image_references(call: Call, wire: WireRequest) -> References:
    """Return the files that the JSON body of ``POST /v1/images/edits`` names."""
    found: References = []
    _walk(wire.json, "", found)
    return found


def _walk(value: Any, path: str, found: References) -> None:
    """Add the references below an array or object, whose depth was limited when the body was parsed."""
    if type(value) is list:
        for number, item in enumerate(value):
            if type(item) is dict or type(item) is list:
                _walk(item, f"{path}.{number}", found)
        return
    for name, member in value.items():
        if name in _KIND_OF_MEMBER and type(member) is not dict:
            _add(_KIND_OF_MEMBER[name], member, f"{path}.{name}" if path else name, found)
        elif (type(member) is dict or type(member) is list) and name not in _NO_REFERENCES_BELOW:
            _walk(member, f"{path}.{name}" if path else name, found)


def _add(kind: str, value: Any, path: str, found: References) -> None:
    """Add the references of a member, whose value is an id or an array of ids."""
    ids = {path: value} if type(value) is not list else {f"{path}.{place}": one for place, one in enumerate(value)}
    for place, identity in ids.items():
        if isinstance(identity, str) and identity and not (kind == "skill" and identity.startswith(_VENDORS_SKILLS)):
            found.append(ObjectReference(kind=kind, id=identity, param=place))


def list_object_references(items: list[Any], path: str) -> References:
    """Return the ids of objects at an upstream in items: files, containers and others, but not the ids of the items."""
    found: References = []
    _walk(items, path, found)
    return found


def _refer_to_response(call: Call, response_id: str) -> ObjectReference:
    return ObjectReference(
        kind="response",
        id=response_id,
        param=store.PREVIOUS_RESPONSE_ID,
        error=partial(storing.previous_response_error, call, response_id),
        memory_name=store.make_name(response_id),
        only_verbatim=True,
    )


def _refer_to_item(item_id: str, path: str) -> ObjectReference:
    return ObjectReference(
        kind="item",
        id=item_id,
        param=path,
        error=partial(store.item_not_found_error, item_id, path),
        memory_name=store.make_name(get_response_id(item_id)),
        only_verbatim=True,
    )
