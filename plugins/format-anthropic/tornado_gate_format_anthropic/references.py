"""The ids in messages bodies that name objects of an upstream account: files, containers and skills.

Bodies are not checked yet here: values of a wrong type are no references. Content that the upstream produced in earlier turns may
contain file ids too; it is not looked up.

Source: anthropic-python, types/beta: beta_file_document_source_param.py, beta_container_params.py and
beta_container_upload_block_param.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tornado_gate.types import Call, ObjectReference, WireRequest

_MEMBERS: Final = (b'"file_id"', b'"container"', b"\\u00")
"""Of these members, and escapes that may hide them, one occurs in each body with references."""
_FILE_TYPES: Final = ("file", "container_upload")


def list_references(call: Call, wire: WireRequest) -> Iterator[ObjectReference]:
    """Yield the references in the body of ``POST /v1/messages``."""
    raw, body = wire.raw, wire.json
    if not any(member in raw for member in _MEMBERS):
        return
    container = body.get("container")
    if isinstance(container, str):
        yield ObjectReference(kind="container", id=container, param="container")
    elif isinstance(container, Mapping):
        if isinstance(container.get("id"), str):
            yield ObjectReference(kind="container", id=container["id"], param="container.id")
        yield from _list_skills(container.get("skills"))
    yield from _list_files(body.get("messages"), "messages")


def _list_skills(skills: Any) -> Iterator[ObjectReference]:
    for number, skill in enumerate(skills if isinstance(skills, list) else ()):
        if isinstance(skill, Mapping) and skill.get("type") != "anthropic" and isinstance(skill.get("skill_id"), str):
            yield ObjectReference(kind="skill", id=skill["skill_id"], param=f"container.skills.{number}.skill_id")


def _list_files(value: Any, path: str) -> Iterator[ObjectReference]:
    """Yield the files below `value`, whose depth was limited when the body was parsed."""
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from _list_files(item, f"{path}.{number}")
    elif isinstance(value, dict):
        if value.get("type") in _FILE_TYPES and isinstance(value.get("file_id"), str):
            yield ObjectReference(kind="file", id=value["file_id"], param=f"{path}.file_id")
        for name, member in value.items():
            if name != "input" and isinstance(member, (dict, list)):  # the input of a tool is data of the client
                yield from _list_files(member, f"{path}.{name}")
