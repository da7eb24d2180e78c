"""What the tests on golden fixtures share: where the fixtures are, and values as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

FIXTURES = Path(__file__).parent / "fixtures"


def stems(ending: str) -> list[str]:
    """The names of the fixtures that end so, without it."""
    return sorted(path.name.removesuffix(ending) for path in FIXTURES.glob("*" + ending))


def load(name: str) -> Any:
    """The JSON of a fixture."""
    return json.loads((FIXTURES / name).read_text(encoding="utf-8"))


def plain(value: Any) -> Any:
    """`value` as JSON: a struct as its class name and the fields that are not at their default."""
    if isinstance(value, msgspec.Struct):
        said = {
            field.name: plain(getattr(value, field.name))
            for field in msgspec.structs.fields(value)
            if getattr(value, field.name) != default_of(field)
        }
        return {"": type(value).__name__, **said}
    if isinstance(value, dict):
        return {name: plain(member) for name, member in value.items()}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def default_of(field: msgspec.structs.FieldInfo) -> Any:
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
