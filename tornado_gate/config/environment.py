"""``${VAR}`` and ``${VAR:-default}`` in the strings of conf, after parsing: no variable is ever read as YAML."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tornado_gate.config.faults import Fault, KeyPath
from tornado_gate.config.model import Secret
from tornado_gate.types.value import State, field

_REFERENCE = re.compile(r"\$\$\{|\$\{(?P<inside>[^}]*)\}|\$\{")
_INSIDE = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<default>:-(?P<value>.*))?", re.DOTALL)


class EnvironmentText(Secret):
    """A string with something of the environment in it: not to be shown, and convertible to the type a key wants."""

    __slots__ = ()


class FilledValues(State):
    """The values with the environment's in place.

    `unset` are the places that need a variable which is not there, with its name. There, and where a reference cannot
    be read (a fault), a mapping loses the key and a list holds "".
    """

    values: Any = None
    unset: list[tuple[KeyPath, str]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)


def fill(values: Any, environment: Mapping[str, str]) -> FilledValues:
    """Put the environment's values in. As in a shell, ``:-default`` counts for a variable that is unset or empty."""
    return _VariableFiller(environment).fill(values)


class _MissingVariable(Exception):
    """Something in a string has no value; what, is recorded already."""


class _VariableFiller:
    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = environment
        self.filled = FilledValues()

    def fill(self, values: Any) -> FilledValues:
        try:
            self.filled.values = self.fill_value(values, ())
        except _MissingVariable:
            self.filled.values = None
        return self.filled

    def fill_value(self, value: Any, path: KeyPath) -> Any:
        if isinstance(value, dict):
            return self.fill_mapping(value, path)
        if isinstance(value, list):
            return [self.fill_item(item, (*path, index)) for index, item in enumerate(value)]
        if isinstance(value, str) and "${" in value:
            return self.fill_text(value, path)
        return value

    def fill_mapping(self, values: dict[str, Any], path: KeyPath) -> dict[str, Any]:
        result = {}
        for key, value in values.items():
            if "${" in key:
                self.filled.faults.append(((*path, key), "a key cannot hold ${...}; only values can"))
            try:
                result[key] = self.fill_value(value, (*path, key))
            except _MissingVariable:
                continue
        return result

    def fill_item(self, value: Any, path: KeyPath) -> Any:
        try:
            return self.fill_value(value, path)
        except _MissingVariable:
            return EnvironmentText("")

    def fill_text(self, value: str, path: KeyPath) -> str:
        """Every reference of a string replaced. Raises _Gap, after all were looked at, when one has no value."""
        references = list(_REFERENCE.finditer(value))
        parts, end = [], 0
        for reference in references:
            parts += [value[end : reference.start()], self.resolve_reference(reference, path)]
            end = reference.end()
        if any(part is None for part in parts):
            raise _MissingVariable
        text = "".join(part for part in [*parts, value[end:]] if part is not None)
        return text if all(reference[0] == "$${" for reference in references) else EnvironmentText(text)

    def resolve_reference(self, reference: re.Match[str], path: KeyPath) -> str | None:
        if reference[0] == "$${":
            return "${"
        inside = _INSIDE.fullmatch(reference["inside"] or "")
        if inside is None:
            message = "a reference must be ${NAME} or ${NAME:-default}; write $${ for a literal ${"
            self.filled.faults.append((path, message))
            return None
        value = self.environment.get(inside["name"])
        if inside["default"] is not None:
            value = value or inside["value"]
        elif value is None:
            self.filled.unset.append((path, inside["name"]))
            return None
        return self.check_encoding(value, inside["name"], path)

    def check_encoding(self, value: str, name: str, path: KeyPath) -> str | None:
        """The environment of a process is bytes: Python marks what is not UTF-8 with lone surrogates."""
        if value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value):
            return value
        self.filled.faults.append((path, f"the environment variable {name} is not UTF-8"))
        return None
