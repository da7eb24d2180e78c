"""Conditions on the body that an upstream received, in either vendor's format: where a caller's wish arrived."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, Final

from qa.imitations.calling.scenario import find

JPEG: Final = base64.b64encode(b"\xff\xd8\xff\xe0\x00\x10JFIF\x00 a picture \xff\xd9").decode()
BMP: Final = base64.b64encode(b"BM\x46\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0" + bytes(52)).decode()
TIFF: Final = base64.b64encode(b"II*\0\x08\0\0\0" + bytes(16)).decode()
GIF: Final = base64.b64encode(b"GIF89a\x01\0\x01\0\x80\0\0" + bytes(24)).decode()
HEIC: Final = base64.b64encode(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(16)).decode()
PDF: Final = base64.b64encode(b"%PDF-1.4\n%a document\n%%EOF\n").decode()


def thinks(body: Mapping[str, Any]) -> bool:
    """Thinking is on, or set by an effort or a level."""
    kind = find(body, "thinking.type")
    config = find(body, "generationConfig.thinkingConfig") or {}
    level = config.get("thinkingLevel") or config.get("thinkingBudget") not in (None, 0)
    return kind in ("enabled", "adaptive") or bool(level)


def is_off(body: Mapping[str, Any]) -> bool:
    """Thinking is off, or the model has none."""
    return not thinks(body)


def has_forced(body: Mapping[str, Any]) -> bool:
    """A tool must be called."""
    mode = find(body, "toolConfig.functionCallingConfig.mode")
    return find(body, "tool_choice.type") in ("any", "tool") or mode == "ANY"


def names_one_tool(body: Mapping[str, Any]) -> bool:
    """Of several tools only one may be called, and must be."""
    allowed = find(body, "toolConfig.functionCallingConfig.allowedFunctionNames")
    one = len(body["tools"]) == 1 if "messages" in body else bool(allowed) and len(allowed) == 1
    return has_forced(body) and one


def closed_format(body: Mapping[str, Any]) -> bool:
    """A schema of the answer has arrived."""
    config = body.get("generationConfig") or {}
    schema = config.get("responseJsonSchema") or config.get("responseSchema")
    return bool(find(body, "output_config.format.schema") or schema)


def has_text(body: Mapping[str, Any], text: str) -> bool:
    """This text stands somewhere in the body."""
    return text in json.dumps(body, ensure_ascii=False)


def list_tool_names(body: Mapping[str, Any]) -> list[str]:
    """The names of the functions in a body of any format, in their order."""
    names: list[str] = []
    for tool in body.get("tools") or ():
        names += [function["name"] for function in tool.get("functionDeclarations") or ()]
        inner = tool.get("function") or tool.get("custom") or tool
        names += [inner["name"]] if "name" in inner else []
    return names
