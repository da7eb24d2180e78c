"""The messages of the console: in its templates, its Python code and its scripts, and the words of alerts."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tornado_gate import alerts
from tornado_gate.server.console import languages
from tornado_gate.server.console.languages.expressions import walk_results
from tornado_gate.server.console.languages.scripts import CONTEXT
from tornado_gate.server.console.languages.template_text import Message, find_messages

CONSOLE = Path(languages.__file__).parent.parent
ALERTS = Path(alerts.__file__).parent
_FUNCTIONS = {"translate", "mark"}
_TABLES = {"Reason", "Words"}  # classes all of whose arguments are texts that are translated when they are used
_SCRIPT_CALL = re.compile(r'\btranslate\(\s*"((?:[^"\\\n]|\\.)*)"')


def extract_messages() -> dict[Message, list[str]]:
    """Return the messages with the files that have them, below the packages of the console and of alerts."""
    found: dict[Message, list[str]] = {}
    for path in (*sorted(CONSOLE.rglob("*")), *sorted(ALERTS.rglob("*.py"))):
        root = CONSOLE if path.is_relative_to(CONSOLE) else ALERTS.parent
        name = path.relative_to(root).as_posix()
        for message in _read_messages(path):
            places = found.setdefault(message, [])
            if name not in places:
                places.append(name)
    return found


def _read_messages(path: Path) -> Iterator[Message]:
    if path.suffix == ".html":
        yield from find_messages(path.read_text(encoding="utf-8"))
    elif path.suffix == ".py":
        yield from _find_in_code(path.read_text(encoding="utf-8"))
    elif path.suffix == ".js":
        for match in _SCRIPT_CALL.finditer(path.read_text(encoding="utf-8")):
            yield Message(ast.literal_eval(f'"{match[1]}"'), CONTEXT)


def _find_in_code(source: str) -> Iterator[Message]:
    """Yield the arguments of `translate` and `mark`, texts of tables, and nouns that are counted."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        texts = list(_list_texts(node.args[0])) if node.args else []
        if name in _FUNCTIONS:
            context = next(_list_texts(node.args[1]), "") if len(node.args) > 1 else ""
            yield from (Message(text, context) for text in texts)
        elif name == "count" and len(node.args) == 2:
            yield from (Message(text, "count") for text in _list_texts(node.args[1]))
        elif name in _TABLES:
            yield from (Message(text) for argument in node.args for text in _list_texts(argument))


def _list_texts(node: ast.expr) -> Iterator[str]:
    for result in walk_results(node):
        if isinstance(result, ast.Constant) and isinstance(result.value, str):
            yield result.value
