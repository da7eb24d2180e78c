"""A vendor's models and what each accepts, as data: rows of `models.yaml` in the plugin, refined by rows of conf.

A row has ``match``, a pattern of model names or a list of them (``*`` and ``?``, not case-sensitive), ``source``, where and
when its facts were read, and facts: the fields of the plugin's struct. All rows that match a name apply in order: a later row
replaces single facts of an earlier one. So the first row has the facts of the newest family, which apply to unknown names.
"""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib import resources
from typing import Any, Final, Generic, TypeVar

import msgspec
import yaml

from tornado_gate.errors import ConfigError
from tornado_gate.types.model_names import canonicalize_name
from tornado_gate.types.value import Value
from tornado_gate.wire.model_features import ChatFeatures

MAX_CACHED_NAMES: Final = 2_000
"""Model names whose facts are kept. It is bounded because callers choose the names that match a wildcard in conf."""

FILE_NAME: Final = "models.yaml"
RULES_KEY: Final = "model_rules"
"""The key of a provider entry with additional rows, by pattern."""

F = TypeVar("F", bound=ChatFeatures)
Path = tuple[str | int, ...]


class ModelRow(Value, frozen=True, kw_only=True):
    """One row: `facts` are valid values of the struct's fields."""

    match: tuple[str, ...]
    facts: Mapping[str, Any]
    source: str


class ModelTable(Generic[F]):
    """The facts of models, as values of the struct `kind`."""

    def __init__(self, kind: type[F], rows: Iterable[ModelRow]) -> None:
        self._kind = kind
        self._rows = tuple(rows)
        self._patterns = [re.compile("|".join(map(fnmatch.translate, row.match)), re.IGNORECASE) for row in self._rows]
        self._found: dict[str, F] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ModelTable) and (self._kind, self._rows) == (other._kind, other._rows)

    __hash__ = None  # type: ignore[assignment]

    def find_features(self, model: str) -> F:
        """The facts of a model name; a dictionary lookup for a name that was looked up before."""
        features = self._found.get(model)
        if features is None:
            if len(self._found) >= MAX_CACHED_NAMES:
                self._found.clear()
            features = self._found[model] = self._merge_rows(model)
        return features

    def list_rows(self, model: str) -> tuple[ModelRow, ...]:
        """The rows that match a model name, in the order in which they apply."""
        name = canonicalize_name(model)
        rows = zip(self._rows, self._patterns, strict=True)
        return tuple(row for row, pattern in rows if pattern.match(model) or pattern.match(name))

    def list_patterns(self, fact: str) -> dict[str, Any]:
        """The value of one fact by pattern of model names; the first pattern that matches a name applies."""
        patterns: dict[str, Any] = {}
        for row in reversed(self._rows):
            for pattern in row.match if fact in row.facts else ():
                patterns.setdefault(pattern, row.facts[fact])
        return patterns

    def explain(self, model: str) -> dict[str, Any]:
        """The facts of a model name and the rows that they come from, as JSON values."""
        rows = [{"match": row.match, "facts": row.facts, "source": row.source} for row in self.list_rows(model)]
        explained: dict[str, Any] = msgspec.json.decode(
            msgspec.json.encode({"facts": self.find_features(model), "rows": rows})
        )
        return explained

    def list_abilities(self, model: str) -> tuple[str, ...]:
        """The abilities of a model; () for a name that has only the facts of unknown ones."""
        is_known = any(row.match != ("*",) for row in self.list_rows(model))
        return self.find_features(model).list_abilities() if is_known else ()

    def _merge_rows(self, model: str) -> F:
        merged: dict[str, Any] = {}
        for row in self.list_rows(model):
            merged |= row.facts
        return self._kind(**merged)


def build_table(
    kind: type[F], package: str | None, rules: Mapping[str, Any], facts: Mapping[str, Any] | None = None
) -> ModelTable[F]:
    """The table of `package`'s models.yaml, refined by a provider entry's ``model_rules``, and by its `facts` for all models.

    Without `package` the struct's defaults are refined. `facts` have been checked. Raises ConfigError with paths below the entry.
    """
    rows = () if package is None else load_rows(kind, package)
    own = (ModelRow(match=("*",), facts=facts, source="conf, settings of the entry"),) if facts else ()
    return ModelTable(kind, (*rows, *read_rules(kind, rules), *own))


@lru_cache(maxsize=8)
def load_rows(kind: type[Value], package: str) -> tuple[ModelRow, ...]:
    """The rows of the file models.yaml in `package`. Raises ConfigError that names the file, the row and the key."""
    text = resources.files(package).joinpath(FILE_NAME).read_text(encoding="utf-8")
    loaded = yaml.safe_load(text)
    if not isinstance(loaded, list):
        raise ConfigError([((FILE_NAME,), f"must be a list of rows; found in {package}")])
    return tuple(_read_row(kind, row, (FILE_NAME, number)) for number, row in enumerate(loaded))


def read_rules(kind: type[Value], rules: Mapping[str, Any]) -> tuple[ModelRow, ...]:
    """The rows of ``model_rules``, which maps patterns to facts. Raises ConfigError with paths below the entry."""
    return tuple(
        ModelRow(match=(pattern,), facts=_read_facts(kind, facts, (RULES_KEY, pattern)), source=f"conf, {RULES_KEY}")
        for pattern, facts in rules.items()
    )


def _read_row(kind: type[Value], row: Any, path: Path) -> ModelRow:
    match row:
        case {"match": str() | list() as patterns, "source": str(source), **facts}:
            names = [patterns] if isinstance(patterns, str) else patterns
            if names and all(isinstance(name, str) and name for name in names):
                return ModelRow(match=tuple(names), facts=_read_facts(kind, facts, path), source=source)
    raise ConfigError([(path, "must have 'match' (a pattern or a list of patterns) and 'source'")])


def _read_facts(kind: type[Value], facts: Any, path: Path) -> dict[str, Any]:
    if not isinstance(facts, Mapping):
        raise ConfigError([(path, "must be a mapping of facts, such as {efforts: [low, high]}")])
    types = {field.name: field.type for field in msgspec.structs.fields(kind)}
    faults: list[tuple[Path, str]] = []
    read: dict[str, Any] = {}
    for name, value in facts.items():
        try:
            read[name] = msgspec.convert(value, types[name])
        except KeyError:
            faults.append(((*path, name), _describe_unknown(str(name), types)))
        except msgspec.ValidationError as error:
            faults.append(((*path, name), f"is invalid: {error}"))
    if faults:
        raise ConfigError(faults)
    return read


def _describe_unknown(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return "is unknown; " + (f"did you mean '{near[0]}'?" if near else f"allowed are {', '.join(sorted(known))}")
