"""The vendor's server tools, and the parts about code execution, in both directions. Pure.

Searches and pages that were read are metadata of the candidate; see `grounding`.

Source: google-genai 3.4, types.Tool, GoogleSearch, UrlContext, ExecutableCode and CodeExecutionResult.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.types import Call, ServerTool, ServerToolKind, ServerToolUse, VendorPart, VendorTool
from tornado_gate.wire.server_tools import list_others, read_domains, take_server_tool
from tornado_gate_gemini.wire.generate.json_values import read_object, read_string
from tornado_gate_gemini.wire.generate.names import WIRE_FORMAT

_KINDS: Final[Mapping[str, ServerToolKind]] = {
    "googleSearch": "web_search",
    "googleSearchRetrieval": "web_search",
    "urlContext": "web_fetch",
    "codeExecution": "code_execution",
}
_NAMES: Final[Mapping[ServerToolKind, str]] = {
    "web_search": "googleSearch",
    "web_fetch": "urlContext",
    "code_execution": "codeExecution",
}
_OK: Final = "OUTCOME_OK"


def parse_server_tool(name: str, value: Any) -> ServerTool | None:
    """Return the server tool for the member `name` of an entry of ``tools``; None for a tool that only this vendor has."""
    kind = _KINDS.get(name)
    if kind is None:
        return None
    members = read_object(value)
    return ServerTool(
        kind=kind,
        blocked_domains=read_domains(members.get("excludeDomains")),
        names={"blocked_domains": f"{name}.excludeDomains"},
        others=tuple(f"{name}.{other}" for other in list_others(members, "excludeDomains")),
    )


def render_server_tool(call: Call, tool: VendorTool, path: str) -> dict[str, Any] | None:
    """Return the entry for a tool of another format. Returns None and reports the tool if the vendor has no equivalent.

    The Gemini API has no domains and no location; Vertex AI has ``excludeDomains``.
    """
    server = take_server_tool(call, tool, path)
    return None if server is None else {_NAMES[server.kind]: {}}


def parse_code_part(part: Mapping[str, Any], call_id: str) -> ServerToolUse | None:
    """The use in a part about code execution; None for any other part. `call_id` is the id of the last call, for a result."""
    code, result = part.get("executableCode"), part.get("codeExecutionResult")
    if isinstance(code, Mapping):
        identity = read_string(code.get("id")) or call_id
        return ServerToolUse(id=identity, kind="code_execution", step="call", code=read_string(code.get("code")))
    if isinstance(result, Mapping):
        outcome = read_string(result.get("outcome"))
        return ServerToolUse(
            id=read_string(result.get("id")) or call_id,
            kind="code_execution",
            step="result",
            output=read_string(result.get("output")),
            error="" if outcome in ("", _OK) else outcome,
        )
    return None


def render_code_parts(part: VendorPart) -> list[dict[str, Any]]:
    """The parts about code execution in another format; [] for any other part."""
    use = part.server
    if use is None or use.kind != "code_execution" or part.wire_format == WIRE_FORMAT:
        return []
    parts: list[dict[str, Any]] = []
    if use.step != "result":
        parts.append({"executableCode": {"language": "PYTHON", "code": use.code}})
    if use.step != "call":
        outcome = "OUTCOME_FAILED" if use.error else _OK
        parts.append({"codeExecutionResult": {"outcome": outcome, "output": use.output}})
    return parts
