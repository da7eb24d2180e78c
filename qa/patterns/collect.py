"""Finds every regular expression: each call of `re` in the source, and the patterns that are compiled when a module is imported.

`collect` replaces `re.compile`, so it must run before the modules are imported: in a process of its own.
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent.parent
METHODS = ("match", "fullmatch", "search", "finditer", "findall", "sub", "subn", "split")
LINEAR_ENGINE = "re2"


class Site(NamedTuple):
    """A call in the source. `name` is unique: ``package/module.py:NAME`` of what it is assigned to, or of its function."""

    name: str
    file: Path
    first_line: int
    last_line: int
    method: str
    pattern: str | bytes | None
    flags: int
    module: str


class Found(NamedTuple):
    """A pattern and the methods by which the code uses it; `methods` is empty if that does not show."""

    name: str
    pattern: re.Pattern[Any]
    methods: frozenset[str]


def list_files() -> list[Path]:
    """The modules of the core and of the first-party plugins."""
    folders = [ROOT / "tornado_gate", *sorted((ROOT / "plugins").glob("*/tornado_gate_*"))]
    return [path for folder in folders for path in sorted(folder.rglob("*.py"))]


def collect() -> tuple[list[Found], list[str]]:
    """The patterns, and the names of the sites whose pattern is only known when their function runs."""
    sites = [site for path in list_files() for site in _find_sites(path)]
    compiled = _import_all()
    uses = _find_uses()
    found: dict[tuple[str, object, int], Found] = {}
    unknown: list[str] = []
    for site in sites:
        lines = range(site.first_line, site.last_line + 1)
        patterns = [pattern for line in lines for pattern in compiled.get((str(site.file), line), ())]
        if site.pattern is not None and not patterns:
            patterns = [re.compile(site.pattern, site.flags)]
        if not patterns:
            unknown.append(site.name)
        name = site.name.rpartition(":")[2]
        methods = {site.method} if site.method != "compile" else uses.get((site.module, name), set())
        for pattern in patterns:
            found[site.name, pattern.pattern, pattern.flags] = Found(site.name, pattern, frozenset(methods))
    return list(found.values()), sorted(set(unknown))


def _import_all() -> dict[tuple[str, int], list[re.Pattern[Any]]]:
    """Import all modules; return what each line has compiled meanwhile."""
    compiled: dict[tuple[str, int], list[re.Pattern[Any]]] = {}
    original = re.compile

    def record(pattern: Any, flags: Any = 0) -> re.Pattern[Any]:
        result = original(pattern, flags)
        frame = sys._getframe(1)  # the only way to the place of a call
        compiled.setdefault((frame.f_code.co_filename, frame.f_lineno), []).append(result)
        return result

    re.compile = record  # type: ignore[assignment]
    try:
        for path in list_files():
            if not {"templates", "migrations", "__main__.py"} & set(path.parts):
                importlib.import_module(_get_module(path))
    finally:
        re.compile = original
    return compiled


def _get_module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts[2:] if parts[0] == "plugins" else parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _find_sites(path: Path) -> Iterator[Site]:
    """The calls of functions of `re` in a file. RE2 is linear for every pattern."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = _find_functions(tree)
    place = str(path.relative_to(ROOT))
    place = place.partition("/")[2] if place.startswith("plugins/") else place
    for owner, node in _walk(tree, ""):
        if not isinstance(node, ast.Call):
            continue
        method = _get_function(node.func, functions)
        if method not in (*METHODS, "compile"):
            continue
        pattern, flags = _read_constants(node)
        last = node.end_lineno or node.lineno
        yield Site(f"{place}:{owner}", path, node.lineno, last, method, pattern, flags, _get_module(path))


def _find_functions(tree: ast.Module) -> dict[str, str]:
    """Names by which a file imports `re` ("" for the module itself) or functions of it."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.asname or alias.name: "" for alias in node.names if alias.name in ("re", "regex")}
        elif isinstance(node, ast.ImportFrom) and node.module in ("re", "regex"):
            names |= {alias.asname or alias.name: alias.name for alias in node.names}
    return names


def _get_function(node: ast.expr, functions: dict[str, str]) -> str:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and functions.get(node.value.id) == "":
        return node.attr
    return functions.get(node.id, "") if isinstance(node, ast.Name) else ""


def _walk(node: ast.AST, owner: str) -> Iterator[tuple[str, ast.AST]]:
    """Every node, with the name that it is assigned to at the top of a module or class, or that of its function."""
    for child in ast.iter_child_nodes(node):
        name = owner
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{owner}.{child.name}" if owner else child.name
        elif isinstance(child, ast.Assign | ast.AnnAssign) and isinstance(node, ast.Module | ast.ClassDef):
            target = child.targets[0] if isinstance(child, ast.Assign) else child.target
            name = ast.unparse(target)
        yield name, child
        yield from _walk(child, name)


def _read_constants(node: ast.Call) -> tuple[str | bytes | None, int]:
    """Pattern and flags of a call, if they stand there; None otherwise."""
    try:
        pattern = ast.literal_eval(node.args[0])
    except (ValueError, IndexError):
        return None, 0
    flags = 0
    for extra in (*node.args[1:], *(word.value for word in node.keywords if word.arg == "flags")):
        for part in ast.walk(extra):
            if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == "re":
                flags |= getattr(re, part.attr)
    return (pattern if isinstance(pattern, str | bytes) else None), flags


def _find_uses() -> dict[tuple[str, str], set[str]]:
    """(module, name of a pattern) -> the methods that any module calls on it."""
    uses: dict[tuple[str, str], set[str]] = {}
    for path in list_files():
        tree, module = ast.parse(path.read_text(encoding="utf-8")), _get_module(path)
        imported = {
            alias.asname or alias.name: (node.module or "", alias.name)
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and not node.level
            for alias in node.names
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in METHODS and isinstance(node.value, ast.Name):
                key = imported.get(node.value.id, (module, node.value.id))
                uses.setdefault(key, set()).add(node.attr)
    return uses
