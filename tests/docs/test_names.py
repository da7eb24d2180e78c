"""What the pages for plugin authors name exists: modules and their members, fields of `Call`."""

from __future__ import annotations

import re
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import msgspec

from tests.docs.pages import read_blocks
from tests.support.guides import DOCS
from tornado_gate import errors, types

PAGES = [path.relative_to(DOCS).as_posix() for path in sorted(DOCS.glob("plugins/**/*.md"))]
PAGES += [f"how-to/{name}.md" for name in ("guards", "wrappers")]
PROSE = {
    page: re.sub(r"^```.*?^```$", "", (DOCS / page).read_text(encoding="utf-8"), flags=re.M | re.S) for page in PAGES
}
OPTIONAL = ("tornado_gate_",)
"""Prefixes of plugins, which are not part of the package."""


def find_missing_name(dotted: str) -> str:
    """The part of a dotted name that does not exist, or ""."""
    names = dotted.split(".")
    module: Any = import_module(names[0])
    for number, name in enumerate(names[1:], 2):
        path = ".".join(names[:number])
        if hasattr(module, name):
            module = getattr(module, name)
        elif hasattr(module, "__path__") and find_spec(path) is not None:
            module = import_module(path)
        else:
            return path
    return ""


def test_modules_and_their_members_exist() -> None:
    named = {(page, name) for page, text in PROSE.items() for name in re.findall(r"`(tornado_gate(?:\.\w+)+)", text)}
    assert len(named) > 20
    missing = {f"{page}: {found}" for page, name in named if (found := find_missing_name(name))}
    assert not missing


def test_types_errors_and_fields_of_a_call_exist() -> None:
    known = {"types": types, "errors": errors}
    fields = {field.name for field in msgspec.structs.fields(types.Call)} | set(dir(types.Call))
    missing = set()
    for page, text in PROSE.items():
        for module, name in re.findall(r"`(types|errors)\.(\w+)", text):
            if not hasattr(known[module], name) and find_missing_name(f"tornado_gate.{module}.{name}"):
                missing.add(f"{page}: {module}.{name}")
        missing |= {
            f"{page}: call.{name}" for name in re.findall(r"`(?:await )?call\.(\w+)", text) if name not in fields
        }
    assert not missing


def test_examples_are_valid_python() -> None:
    for page in PAGES:
        for block in read_blocks(page):
            if block.language == "python" and not block.text.startswith(("def ", "async def ")):
                compile(block.text, f"{page}:{block.line}", "exec")
