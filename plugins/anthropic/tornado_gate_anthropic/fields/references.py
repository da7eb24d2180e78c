"""The ids in messages bodies that name objects of an upstream account: files, containers and skills.

Bodies are not checked yet here: values of a wrong type are no references. The parsed body is walked, not its text, whose strings
may be long. Content that the upstream produced in earlier turns may
contain file ids too; it is not looked up.

Source: anthropic-python, types/beta: beta_file_document_source_param.py, beta_container_params.py and
beta_container_upload_block_param.py.
"""

from __future__ import annotations

from typing import Any, Final

from tornado_gate.types import Call, ObjectReference, WireRequest

_FILE_TYPES: Final = ("file", "container_upload")

References = list[ObjectReference]


def list_references(call: Call, wire: WireRequest) -> References:
    """Return the references in the body of ``POST /v1/messages``."""
    found: References = []
    container = wire.json.get("container")
    if isinstance(container, str):
        found.append(ObjectReference(kind="container", id=container, param="container"))
    elif isinstance(container, dict):
        if isinstance(container.get("id"), str):
            found.append(ObjectReference(kind="container", id=container["id"], param="container.id"))
        _add_skills(container.get("skills"), found)
    messages = wire.json.get("messages")
    for number, message in enumerate(messages if type(messages) is list else ()):
        content = message.get("content") if type(message) is dict else None
        if type(content) is list:
            _add_files(content, f"messages.{number}.content", found)
    return found


def _add_skills(skills: Any, found: References) -> None:
    for number, skill in enumerate(skills if isinstance(skills, list) else ()):
        if isinstance(skill, dict) and skill.get("type") != "anthropic" and isinstance(skill.get("skill_id"), str):
            param = f"container.skills.{number}.skill_id"
            found.append(ObjectReference(kind="skill", id=skill["skill_id"], param=param))


def _add_files(value: Any, path: str, found: References) -> None:
    """Add the files below an array or object, whose depth was limited when the body was parsed."""
    if type(value) is list:
        for number, item in enumerate(value):
            if type(item) is dict or type(item) is list:
                _add_files(item, f"{path}.{number}", found)
        return
    if value.get("type") in _FILE_TYPES and isinstance(value.get("file_id"), str):
        found.append(ObjectReference(kind="file", id=value["file_id"], param=f"{path}.file_id"))
    for name, member in value.items():
        if (type(member) is dict or type(member) is list) and name != "input":  # a tool's input is data of the client
            _add_files(member, f"{path}.{name}", found)
