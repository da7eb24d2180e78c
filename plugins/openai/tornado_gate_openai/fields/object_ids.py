"""The members that name objects of an upstream account, in content parts, items and tools of each type.

Source: openai-python 3.52, types/responses/response_input_item_param.py and tool_param.py.
"""

from __future__ import annotations

from typing import Final

from tornado_gate.codec.fields import ObjectIds

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
