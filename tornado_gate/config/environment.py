"""Replace ``${VAR}``, ``${VAR:-default}``, ``${file:PATH}`` and ``${secret:NAME}`` in the strings of conf, after parsing.

Values are never parsed as YAML.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tornado_gate.config.faults import Fault, KeyPath
from tornado_gate.config.model import Secret
from tornado_gate.config.secret_store import SecretError, SecretStore, UnknownSecret
from tornado_gate.types.value import State, field

_REFERENCE = re.compile(r"\$\$\{|\$\{(?P<inside>[^}]*)\}|\$\{")
_INSIDE = re.compile(
    r"(?P<name>[A-Za-z_][A-Za-z0-9_]*|file:(?P<path>.+?)|secret:(?P<secret>[A-Za-z0-9][A-Za-z0-9._-]{0,99}))"
    r"(?P<default>:-(?P<value>.*))?",
    re.DOTALL,
)
MAX_FILE_BYTES: Final = 65536


class EnvironmentText(Secret):
    """A string with a value from the environment or a file: never shown in messages; converted to the type that its key needs."""

    __slots__ = ()


class FilledValues(State):
    """The values of a file with all references replaced.

    `unset` lists (key path, variable name) for variables that are not set, and (key path, "file:PATH" or "secret:NAME") for
    files and secrets that do not exist. There, and for malformed references (which are in `faults`), a mapping omits the key
    and a list holds "".
    """

    values: Any = None
    unset: list[tuple[KeyPath, str]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)


def fill(
    values: Any,
    environment: Mapping[str, str],
    folder: Path = Path(),
    data_dir: Path = Path("var"),
    secrets: Mapping[str, Mapping[str, Any]] | None = None,
) -> FilledValues:
    """Replace all references. As in a shell, ``:-default`` applies to a variable that is unset or empty.

    ``${file:PATH}`` is the text of a file, without a line break at its end; PATH is relative to `folder`. ``${secret:NAME}`` is a
    secret of the store below `data_dir`, or of `secrets`, which are encrypted entries.
    """
    return _VariableFiller(environment, folder, SecretStore(data_dir, environment, entries=secrets)).fill(values)


def find_data_dir(values: Any, environment: Mapping[str, str], folder: Path) -> Path | None:
    """Return ``server.data_dir`` of values that are not filled; None without a valid one."""
    section = values.get("server") if isinstance(values, Mapping) else None
    written = section.get("data_dir") if isinstance(section, Mapping) else None
    if not isinstance(written, str) or "${secret:" in written:
        return None
    filled = fill({"data_dir": written}, environment, folder).values
    return Path(filled["data_dir"]) if filled.get("data_dir") else None


class _MissingVariable(Exception):
    """A reference in a string has no value; it is already recorded in `FilledValues`."""


class _VariableFiller:
    def __init__(self, environment: Mapping[str, str], folder: Path, secrets: SecretStore) -> None:
        self.environment = environment
        self.folder = folder
        self.secrets = secrets
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
                self.filled.faults.append(((*path, key), "a key cannot contain ${...}; only values can"))
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
        """Return a string with all references replaced. Raises _MissingVariable, after resolving all, if one has no value."""
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
            message = "a reference must be ${NAME}, ${NAME:-default}, ${file:PATH} or ${secret:NAME}; write $${ for a literal ${"
            self.filled.faults.append((path, message))
            return None
        if inside["path"] is not None:
            return self.resolve_file(inside, path)
        if inside["secret"] is not None:
            return self.resolve_secret(inside, path)
        value = self.environment.get(inside["name"])
        if inside["default"] is not None:
            value = value or inside["value"]
        elif value is None:
            self.filled.unset.append((path, inside["name"]))
            return None
        return self.check_encoding(value, inside["name"], path)

    def resolve_file(self, inside: re.Match[str], path: KeyPath) -> str | None:
        """Return the text of a file, its default, or None if there is neither."""
        name = inside["path"]
        try:
            with open(self.folder / name, "rb") as file:
                content = file.read(MAX_FILE_BYTES + 1)
            if len(content) > MAX_FILE_BYTES:
                raise ValueError(f"it has more than {MAX_FILE_BYTES} bytes")
            text = content.decode().removesuffix("\n").removesuffix("\r")
            if (
                not text and inside["default"] is None
            ):  # the file may be incomplete: an empty key would lock everybody out
                raise ValueError(f"it is empty; if it may be, write ${{{inside['name']}:-}}")
        except FileNotFoundError:
            text = ""
            if inside["default"] is None:
                self.filled.unset.append((path, inside["name"]))
                return None
        except (OSError, ValueError) as error:
            if isinstance(error, UnicodeDecodeError):
                reason = "it is not UTF-8"
            else:
                reason = error.strerror or str(error) if isinstance(error, OSError) else str(error)
            self.filled.faults.append((path, f"the file {name} cannot be read: {reason}"))
            return None
        return text or inside["value"] or ""

    def resolve_secret(self, inside: re.Match[str], path: KeyPath) -> str | None:
        """Return a secret, its default, or None if there is neither."""
        try:
            return self.secrets.read(inside["secret"])
        except UnknownSecret:
            if inside["default"] is not None:
                return str(inside["value"])
            self.filled.unset.append((path, inside["name"]))
        except SecretError as error:
            self.filled.faults.append((path, str(error)))
        return None

    def check_encoding(self, value: str, name: str, path: KeyPath) -> str | None:
        """Return `value`, or None and a fault if it is not UTF-8: Python decodes such bytes as lone surrogates."""
        if value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value):
            return value
        self.filled.faults.append((path, f"the environment variable {name} is not UTF-8; set it to UTF-8 text"))
        return None
