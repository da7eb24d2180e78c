"""Headers with a value and parameters, such as ``form-data; name="a"; filename="b.png"`` (RFC 7578 4.2, RFC 9110 5.6.6)."""

from __future__ import annotations

import re

_PARAMETER = re.compile(rb';([^;="]*)=[ \t]*(?:"((?:[^"\\]|\\.)*+)"?|([^;]*))', re.DOTALL)
_ESCAPED = re.compile(rb'\\(["\\])')


def parse_header_parameters(header: bytes) -> tuple[bytes, dict[bytes, bytes]]:
    """Return the value in lower case, and its parameters by their names in lower case.

    RFC 7578 4.2 forbids extended names (``filename*``) in forms: they are left out, so that they replace no plain one. Of a path
    of Windows, as old browsers send it, the last name stays.
    """
    value, _, _ = header.partition(b";")
    parameters: dict[bytes, bytes] = {}
    for match in _PARAMETER.finditer(header, len(value)):
        name = match[1].strip(b" \t").lower()
        content = match[3].rstrip(b" \t") if match[2] is None else _ESCAPED.sub(rb"\1", match[2])
        if b"*" not in name:
            parameters[name] = _drop_folder(content) if name == b"filename" else content
    return value.strip(b" \t").lower(), parameters


def _drop_folder(path: bytes) -> bytes:
    is_windows_path = path[1:3] == b":\\" or path.startswith(b"\\\\")
    return path.rpartition(b"\\")[2] if is_windows_path else path
