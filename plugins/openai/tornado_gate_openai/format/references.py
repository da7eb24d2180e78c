"""The ids in bodies of responses that name objects of an upstream account: responses, items, files, conversations, and others.

Bodies are not checked yet here: values of a wrong type are no references. The parsed body is walked, not its text: its strings
may be long, and the names of its members may be escaped in the text.

Source: openai-python 3.52, types/responses/response_create_params.py, response_input_item_param.py and tool_param.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from tornado_gate.types import Call, ObjectReference, WireRequest
from tornado_gate.types.value import replace
from tornado_gate_openai.fields.responses import read_references
from tornado_gate_openai.format.stored import conversation_store, store, storing
from tornado_gate_openai.wire.responses import get_response_id

_ORDER: Final[Mapping[str, int]] = {"response": 0, "conversation": 1, "prompt": 2, "item": 3}


def list_response_references(call: Call, wire: WireRequest) -> list[ObjectReference]:
    """Return the references in the body of ``POST /v1/responses``, with their names in the gateway's memory."""
    body = wire.json
    if body.get(store.PREVIOUS_RESPONSE_ID) is not None and body.get("conversation") is not None:
        return []  # a 400 on every lane
    references = [reference for reference in read_references(body) if reference.id or reference.kind != "response"]
    references.sort(key=lambda reference: _ORDER.get(reference.kind, len(_ORDER)))
    return [_complete(call, reference) for reference in references]


def _complete(call: Call, reference: ObjectReference) -> ObjectReference:
    match reference.kind:
        case "response":
            return _refer_to_response(call, reference.id)
        case "item":
            return _refer_to_item(reference.id, reference.param)
        case "conversation":
            return replace(reference, memory_name=conversation_store.make_head(reference.id))
    return reference


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
