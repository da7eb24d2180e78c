"""The ids in request bodies that name objects of an upstream account: responses, items, files, conversations, and others.

Bodies are not checked yet here: values of a wrong type are no references. Most bodies contain none; a search of the text finds
that out without a walk through the body.

Source: openai-python 3.52, types/responses/response_create_params.py, response_input_item_param.py and tool_param.py,
types/chat/chat_completion_*_param.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from tornado_gate.types import Call, ObjectReference, WireRequest
from tornado_gate.wire.openai_responses import get_response_id, is_self_contained
from tornado_gate_format_openai import store, storing

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

_RESPONSE_MEMBERS: Final = re.compile(
    rb'"(?:container(?:_id)?|conversation|file_ids?|id|previous_response_id|prompt|skill_id|vector_store_ids)"|\\u00[4-7]'
)
_CHAT_MEMBERS: Final = (b'"file_id"', b'"audio"', b"\\u00")
"""Of these members, and escapes that may hide them, one occurs in each chat body with references."""


def list_response_references(call: Call, wire: WireRequest) -> Iterator[ObjectReference]:
    """Yield the references in the body of ``POST /v1/responses``."""
    body = wire.json
    if _RESPONSE_MEMBERS.search(wire.raw) is None:
        return
    if isinstance(previous := body.get(store.PREVIOUS_RESPONSE_ID), str) and previous:
        yield _refer_to_response(call, previous)
    for name in ("conversation", "prompt"):
        value = body.get(name)
        identity = value.get("id") if isinstance(value, Mapping) else value
        if isinstance(identity, str):
            yield ObjectReference(kind=name, id=identity, param=name if value is identity else f"{name}.id")
    items = body.get("input")
    for number, item in enumerate(items if isinstance(items, list) else ()):
        if isinstance(item, Mapping) and isinstance(item.get("id"), str) and not is_self_contained(item):
            yield _refer_to_item(item["id"], f"input.{number}.id")
    yield from _walk(body, "")


def list_chat_references(call: Call, wire: WireRequest) -> Iterator[ObjectReference]:
    """Yield the references in the body of ``POST /v1/chat/completions``."""
    raw = wire.raw
    if not any(member in raw for member in _CHAT_MEMBERS):
        return
    messages = wire.json.get("messages")
    for number, message in enumerate(messages if isinstance(messages, list) else ()):
        if not isinstance(message, Mapping):
            continue
        audio = message.get("audio")
        if isinstance(audio, Mapping) and isinstance(audio.get("id"), str):
            yield ObjectReference(kind="audio", id=audio["id"], param=f"messages.{number}.audio.id")
        yield from _walk(message.get("content"), f"messages.{number}.content")


def list_image_references(call: Call, wire: WireRequest) -> Iterator[ObjectReference]:
    """Yield the files that the JSON body of ``POST /v1/images/edits`` names."""
    if b'"file_id' in wire.raw or b"\\u00" in wire.raw:
        yield from _walk(wire.json, "")


def _walk(value: Any, path: str) -> Iterator[ObjectReference]:
    """Yield the references below `value`, whose depth was limited when the body was parsed."""
    if isinstance(value, list):
        for number, item in enumerate(value):
            if isinstance(item, (dict, list)):
                yield from _walk(item, f"{path}.{number}")
    elif isinstance(value, dict):
        for name, member in value.items():
            place = f"{path}.{name}" if path else name
            if isinstance(member, str):
                if name in _KIND_OF_MEMBER:
                    yield from _refer(_KIND_OF_MEMBER[name], member, place)
            elif isinstance(member, (dict, list)) and name not in _NO_REFERENCES_BELOW:
                if isinstance(member, list) and name in _KIND_OF_MEMBER:
                    for number, identity in enumerate(member):
                        yield from _refer(_KIND_OF_MEMBER[name], identity, f"{place}.{number}")
                else:
                    yield from _walk(member, place)


def _refer(kind: str, identity: Any, path: str) -> Iterator[ObjectReference]:
    if isinstance(identity, str) and not (kind == "skill" and identity.startswith(_VENDORS_SKILLS)):
        yield ObjectReference(kind=kind, id=identity, param=path)


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
