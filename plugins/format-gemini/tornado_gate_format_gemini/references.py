"""The names in generate bodies of objects in an upstream account: uploaded files, cached contents and file search stores.

Bodies are not checked yet here: values of a wrong type are no references.

Source: google-genai, types.py: FileData, GenerateContentConfig.cached_content, FileSearch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tornado_gate.types import Call, ObjectReference, WireRequest

_MEMBERS: Final = re.compile(rb'"(?:file_?uri|cached_?content|file_?search_?store_?names)"|\\u00[4-7]', re.IGNORECASE)
_KIND_OF_MEMBER: Final[Mapping[str, str]] = {
    "cachedcontent": "cache",
    "fileuri": "file",
    "filesearchstorenames": "vector_store",
}
"""By member name, in lower case and without underscores: the API accepts camelCase and snake_case."""
_NO_REFERENCES_BELOW: Final = frozenset(
    ("args", "response", "parameters", "parametersJsonSchema", "parameters_json_schema", "responseSchema",
     "response_schema", "responseJsonSchema", "response_json_schema")
)  # fmt: skip
"""Members with data of the client or with JSON schemas."""


def list_references(call: Call, wire: WireRequest) -> Iterator[ObjectReference]:
    """Yield the references in the body of a generate or a count request."""
    if _MEMBERS.search(wire.raw) is not None:
        yield from _walk(wire.json, "")


def _walk(value: Any, path: str) -> Iterator[ObjectReference]:
    """Yield the references below `value`, whose depth was limited when the body was parsed."""
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from _walk(item, f"{path}.{number}")
    elif isinstance(value, dict):
        for name, member in value.items():
            place = f"{path}.{name}" if path else name
            kind = _KIND_OF_MEMBER.get(name.lower().replace("_", ""))
            if kind is not None:
                yield from _refer(kind, member, place)
            elif name not in _NO_REFERENCES_BELOW:
                yield from _walk(member, place)


def _refer(kind: str, value: Any, path: str) -> Iterator[ObjectReference]:
    from tornado_gate.wire.gemini_generate import (
        is_uploaded_file,  # not needed at the server's start, which reads the routes
    )

    for identity in value if isinstance(value, list) else (value,):
        if isinstance(identity, str) and (kind != "file" or is_uploaded_file(identity)):
            yield ObjectReference(kind=kind, id=identity, param=path)
