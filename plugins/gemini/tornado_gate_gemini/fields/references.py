"""The names in bodies of objects in an upstream account: uploaded files, cached contents, file search stores, interactions and
their sandboxes.

Bodies are not checked yet here: values of a wrong type are no references. The parsed body is walked, not its text, whose strings
may be long.

Source: google-genai, types.py: FileData, GenerateContentConfig.cached_content, FileSearch; _gaos/types/interactions:
createmodelinteraction, environment, envvar, allowlistentry, source, imagecontent, filesearch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.types import Call, ObjectReference, WireRequest

_KIND_OF_MEMBER: Final[Mapping[str, str]] = {
    "cachedContent": "cache",
    "cached_content": "cache",
    "fileUri": "file",
    "file_uri": "file",
    "fileSearchStoreNames": "vector_store",
    "file_search_store_names": "vector_store",
}
"""By member name, in the two spellings that the API accepts."""
_KIND_IN_INTERACTION: Final[Mapping[str, str]] = {
    "previous_interaction_id": "interaction",
    "environment": "environment",
    "environment_id": "environment",
    "credential": "credential",
    "cached_content": "cache",
    "file_search_store_names": "vector_store",
    "uri": "file",
    "gcs_uri": "file",
    "source": "file",
}
_NO_REFERENCES_BELOW: Final = frozenset(
    ("args", "response", "parameters", "parametersJsonSchema", "parameters_json_schema", "responseSchema",
     "response_schema", "responseJsonSchema", "response_json_schema", "arguments", "response_format", "schema")
)  # fmt: skip
"""Members with data of the client or with JSON schemas."""


References = list[ObjectReference]


def list_references(call: Call, wire: WireRequest) -> References:
    """Return the references in the body of a generate or a count request."""
    found: References = []
    _walk(wire.json, "", found, _KIND_OF_MEMBER)
    return found


def list_interaction_references(call: Call, wire: WireRequest) -> References:
    """Return the references in the body of a new interaction."""
    found: References = []
    _walk(wire.json, "", found, _KIND_IN_INTERACTION)
    return found


def _walk(value: Any, path: str, found: References, kinds: Mapping[str, str]) -> None:
    """Add the references below an array or object, whose depth was limited when the body was parsed."""
    if type(value) is list:
        for number, item in enumerate(value):
            if type(item) is dict or type(item) is list:
                _walk(item, f"{path}.{number}", found, kinds)
        return
    for name, member in value.items():
        if name in kinds and type(member) is not dict:
            _add(kinds[name], member, f"{path}.{name}" if path else name, found)
        elif (type(member) is dict or type(member) is list) and name not in _NO_REFERENCES_BELOW:
            _walk(member, f"{path}.{name}" if path else name, found, kinds)


def _add(kind: str, value: Any, path: str, found: References) -> None:
    """Add the references of a member, whose value is a name or an array of names."""
    from tornado_gate_gemini.wire.generate import is_uploaded_file

    for identity in value if isinstance(value, list) else (value,):
        if isinstance(identity, str) and (kind != "file" or is_uploaded_file(identity)):
            found.append(ObjectReference(kind=kind, id=identity, param=path))
