"""The members that name objects of an upstream account, in content parts, items and tools of each type.

Source: openai-python 3.52, types/responses/response_input_item_param.py and tool_param.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.codec.fields import BodySchema, ObjectIds, make_reference_reader
from tornado_gate.types import ObjectReference

OBJECT_IDS: Final = ObjectIds(
    kinds={
        "container": "container",
        "container_id": "container",
        "file_id": "file",
        "file_ids": "file",
        "skill_id": "skill",
        "vector_store_ids": "vector_store",
    },
    opaque=frozenset(
        ("annotations", "arguments", "logprobs", "metadata", "outputs", "parameters", "results", "schema")
    ),
    shared={"skill": "openai-"},
)
"""Data of the client, JSON schemas, and output that an upstream does not look up have no references."""


class _HolderSchema(BodySchema):
    ids = OBJECT_IDS


_read_references: Final = make_reference_reader(_HolderSchema)


def list_object_references(body: Mapping[str, Any]) -> list[ObjectReference]:
    """Return the ids of files, containers and others in a body, at any depth."""
    return _read_references(body)
