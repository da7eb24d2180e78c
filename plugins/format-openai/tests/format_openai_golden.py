"""What the tests on golden fixtures share: where the fixtures are, and dataclasses as JSON."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).parent / "fixtures"


def stems(ending: str) -> list[str]:
    """The names of the fixtures that end so, without it."""
    return sorted(path.name.removesuffix(ending) for path in FIXTURES.glob("*" + ending))


def load(name: str) -> Any:
    """The JSON of a fixture."""
    return json.loads((FIXTURES / name).read_text(encoding="utf-8"))


def plain(value: Any) -> Any:
    """`value` as JSON: a dataclass as its class name and the fields that are not at their default."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        said = {
            field.name: plain(getattr(value, field.name))
            for field in dataclasses.fields(value)
            if getattr(value, field.name) != default_of(field)
        }
        return {"": type(value).__name__, **said}
    if isinstance(value, dict):
        return {name: plain(member) for name, member in value.items()}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def default_of(field: dataclasses.Field[Any]) -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
