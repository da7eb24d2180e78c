"""Texts of a source as texts of conf: references to variables, names, weights and lists."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import gcd, lcm
from typing import Any, Final

from tornado_gate.config.value_checks import LONGEST_NAME

LARGEST_WEIGHT: Final = 1_000_000
_SPACES: Final = re.compile(r"[^\S ]|\s+")
_NOT_IN_VARIABLES: Final = re.compile(r"[^A-Za-z0-9]+")
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def quote_text(text: str) -> str:
    """Return a text of a source so that conf reads it unchanged."""
    return text.replace("${", "$${")


def make_reference(variable: str) -> str | None:
    """Return ``${NAME}``, or None if the name is not one of a variable."""
    return f"${{{variable}}}" if _VARIABLE.fullmatch(variable) else None


def make_variable_name(text: str) -> str:
    """Return a name for an environment variable, such as OPENAI_PROD_API_KEY for the text ``openai-prod-api-key``."""
    name = _NOT_IN_VARIABLES.sub("_", text).strip("_").upper() or "KEY"
    return f"_{name}" if name[0].isdigit() else name


def make_name(text: str, fallback: str) -> str:
    """Return a valid name for conf: without spaces and control characters."""
    name = "".join(character if character.isprintable() else "-" for character in _SPACES.sub("-", text.strip()))
    return name[: LONGEST_NAME - 10] or fallback


def scale_weights(weights: Sequence[float]) -> list[int]:
    """Return integers in the ratio of `weights`, at most `LARGEST_WEIGHT`. Equal weights, also zeros, become 1."""
    exact = [Fraction(max(weight, 0)).limit_denominator(10_000) for weight in weights]
    if not any(exact):
        return [1] * len(exact)
    factor = lcm(*(weight.denominator for weight in exact))
    whole = [int(weight * factor) for weight in exact]
    divisor = gcd(*whole)
    whole = [weight // divisor for weight in whole]
    largest = max(whole)
    if largest <= LARGEST_WEIGHT:
        return whole
    return [max(weight * LARGEST_WEIGHT // largest, 1) if weight else 0 for weight in whole]


def order_weights(groups: Sequence[Sequence[float]]) -> list[list[int]]:
    """Return weights for groups of targets of which each group is tried before the next.

    The first of two groups gets all requests but one in a million, because targets are chosen at random by weight. Inside a group
    the ratio is that of its weights.
    """
    if len(groups) == 1:
        return [scale_weights(groups[0])]
    step = max(int(LARGEST_WEIGHT ** (1 / (len(groups) - 1)) + 0.5), 2)
    result: list[list[int]] = []
    for position, weights in enumerate(groups):
        total = max(step ** (len(groups) - 1 - position), 1)
        scaled = scale_weights(weights)
        result.append([max(weight * total // max(scaled), 1) if weight else 0 for weight in scaled])
    return result


def parse_number(value: Any) -> float | None:
    """Return a number of a source, also one that is written as a text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) and abs(number) < 1e15 else None


def parse_count(value: Any) -> int | str | None:
    """Return a whole number above 0, or a reference to a variable as it is; None for anything else."""
    if isinstance(value, str) and value.startswith("${"):
        return value
    number = parse_number(value)
    return int(number) if number is not None and number >= 1 else None


def shorten_number(number: float) -> int | float:
    """Return a whole number as an integer, and any other with at most 9 digits after the point."""
    return int(number) if number == int(number) else round(number, 9)


def parse_hash(value: Any) -> str | None:
    """Return a SHA-256 in hexadecimal in lower case; None for anything else."""
    text = value.strip().lower() if isinstance(value, str) else ""
    return text if _HASH.fullmatch(text) else None


def split_list(text: Any, separators: str = ",") -> list[str]:
    """Return the parts of a text without blanks, each once."""
    first = separators[0]
    text = str(text or "")
    for other in separators[1:]:
        text = text.replace(other, first)
    parts = text.split(first)
    return list(dict.fromkeys(part.strip() for part in parts if part.strip()))


def read_json_object(text: Any) -> dict[str, Any]:
    """Return the object in a text that holds JSON; {} for anything else."""
    if isinstance(text, dict):
        return text
    try:
        value = json.loads(text or "{}")
    except (TypeError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def list_objects(value: Any) -> list[dict[str, Any]]:
    """Return the objects of a list; [] for anything else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def list_names(value: Any) -> list[str]:
    """Return the items of a list as texts; [] for anything else."""
    return [str(item) for item in value if item not in (None, "")] if isinstance(value, list) else []


def get_object(value: Any, name: str) -> dict[str, Any]:
    """Return the object that a mapping has under a name; {} for anything else."""
    inner = value.get(name) if isinstance(value, dict) else None
    return inner if isinstance(inner, dict) else {}


def list_unread(values: dict[str, Any], read: Iterable[str]) -> list[str]:
    """Return the names of members that have a value and that no importer reads."""
    known = set(read)
    return [str(name) for name, value in values.items() if name not in known and value not in (None, "", [], {}, False)]
