"""How each agent's tools are called: what the model wants to do, as a call of a tool that the agent offers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from qa.agents.conversation import RefusedError

Arguments = dict[str, Any] | str


@dataclass(frozen=True, slots=True)
class Intent:
    """Something to do with a file: ``write``, ``read``, ``edit`` (`old` becomes `text`) or ``look`` (at a picture).

    ``load`` is for an agent that declares some tools only when the model searches for them; `path` is the name of the tool.
    """

    action: str
    path: str
    text: str = ""
    old: str = ""


def _patch(intent: Intent) -> str:
    if intent.action == "write":
        lines = "".join(f"+{line}\n" for line in intent.text.splitlines())
        return f"*** Begin Patch\n*** Add File: {intent.path}\n{lines}*** End Patch\n"
    return f"*** Begin Patch\n*** Update File: {intent.path}\n@@\n-{intent.old}\n+{intent.text}\n*** End Patch\n"


def _shell(intent: Intent) -> str:
    match intent.action:
        case "write":
            return f"cat > {intent.path} <<'END'\n{intent.text}END"
        case "edit":
            return f"sed -i 's/{intent.old}/{intent.text}/' {intent.path}"
        case _:
            return f"cat {intent.path}"


def _script(intent: Intent, path: str) -> str:
    """JavaScript for Codex's tool ``exec``, which calls the other tools."""
    if intent.action == "look":
        return f"const seen = await tools.view_image({{path: {json.dumps(path)}}}); image(seen.image_url)"
    if intent.action in ("write", "edit"):
        return f"text(await tools.apply_patch({json.dumps(_patch(intent))}))"
    return f"text((await tools.exec_command({{cmd: {json.dumps(_shell(intent))}}})).output)"


ABSOLUTE: Mapping[str, Mapping[str, Callable[[Intent, str], Arguments]]] = {
    "write": {
        "Write": lambda intent, path: {"file_path": path, "content": intent.text},
        "write_file": lambda intent, path: {"file_path": path, "content": intent.text},
        "write": lambda intent, path: {"filePath": path, "content": intent.text},
    },
    "read": {
        "Read": lambda intent, path: {"file_path": path},
        "read_file": lambda intent, path: {"file_path": path},
        "read": lambda intent, path: {"filePath": path},
    },
    "edit": {
        "Edit": lambda intent, path: {"file_path": path, "old_string": intent.old, "new_string": intent.text},
        "edit": lambda intent, path: {"filePath": path, "oldString": intent.old, "newString": intent.text},
        "replace": lambda intent, path: {
            "file_path": path, "old_string": intent.old, "new_string": intent.text, "instruction": "Replace the line.",
        },
    },
    "look": {
        "Read": lambda intent, path: {"file_path": path},
        "view_image": lambda intent, path: {"path": path},
        "read_file": lambda intent, path: {"file_path": path},
        "read": lambda intent, path: {"filePath": path},
    },
}  # fmt: skip
"""By action and name of a tool: its arguments."""


def call_tool(intent: Intent, folder: str, tools: Mapping[str, bool]) -> tuple[str, Arguments]:
    """The tool of the agent for this, and the arguments. Raises RefusedError if the agent has none."""
    if intent.action == "load":
        return "ToolSearch", {"query": f"select:{intent.path}", "max_results": 1}
    path = f"{folder}/{intent.path}"
    for name, build in ABSOLUTE[intent.action].items():
        if name in tools:
            arguments = build(intent, path)
            if name == "edit" and "write_file" in tools and isinstance(arguments, dict):  # Qwen Code's has other names
                arguments = {"file_path": path, "old_string": intent.old, "new_string": intent.text}
            return name, arguments
    if (name := "functions__exec") in tools:
        script = _script(intent, path)
        return name, script if tools[name] else {"input": script}
    if "apply_patch" in tools and intent.action in ("write", "edit"):
        patch = _patch(intent)
        return "apply_patch", patch if tools["apply_patch"] else {"input": patch, "patchText": patch}
    for name, argument in {"exec_command": "cmd", "shell_command": "command", "bash": "command"}.items():
        if name in tools:
            return name, {argument: _shell(intent)}
    raise RefusedError(f"the agent has no tool to {intent.action} a file: {sorted(tools)}")
