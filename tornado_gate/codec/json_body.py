"""A request body as a JSON object; invalid bodies raise a 400 error. The parser uses no wire format.

It is stricter than JSON parsers usually are, because another parser may read the same bytes at the upstream and interpret them
differently: duplicate names, NaN and Infinity, invalid UTF-8 and excessive depth are refused.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from itertools import chain
from typing import Any

import orjson

from tornado_gate.codec.json_bounds import (
    CONTAINER_COST,
    NAME_COST,
    JsonMeasure,
    find_text_width,
    make_measure,
    measure_json,
)
from tornado_gate.codec.large_json import load_json
from tornado_gate.errors import InvalidField, RequestError
from tornado_gate.types.wire import WHOLE_BYTES

MAX_DEPTH = 128
"""The maximum nesting of objects and arrays. No known API needs 30; orjson encodes at most 254."""

_CONTAINERS = frozenset({dict, list})

MAX_UNMEASURED_BYTES = 64 * 1024
MAX_COST = 100_000
"""The limit of `load_object` for a longer text, see `json_bounds`: it processes the text in one step."""

_FLAT_BYTES = 2 * MAX_DEPTH
"""A body up to this length cannot be too deep: each container needs two brackets."""

_SHELL_LEVELS = 254 - MAX_DEPTH
"""orjson writes at most 254 levels, so it refuses a value deeper than MAX_DEPTH inside this many arrays.

This takes a microsecond. A count of brackets looks at each byte: 22 of 52 microseconds for a body of 40 KB.
"""

_ESCAPED_COLON = re.compile(rb"\\u003[aA]")


def load_object(raw: bytes) -> dict[str, Any]:
    """Return the JSON object in `raw`, which is short: the body of a request that is not large, a form field, a message.

    Raises RequestError if it is no object, too deep or too complex, InvalidField for a duplicate name.
    """
    length = len(raw)
    if length > MAX_UNMEASURED_BYTES:
        return load_measured_object(raw, measure_json(raw, MAX_COST))
    try:  # as `_parse_object`, without the cost of two calls for each short body
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise _invalid_json_error(raw, error) from None
    if type(value) is not dict:
        raise _no_object_error()
    if length > _FLAT_BYTES:
        shell = _shell
        inside = shell.inside
        inside[0] = value
        try:
            written = orjson.dumps(shell.outermost)
        except orjson.JSONEncodeError:
            raise _too_deep_error() from None
        finally:
            inside[0] = None
        if len(written) == length + 2 * _SHELL_LEVELS and written.startswith(raw, _SHELL_LEVELS):
            return value
    else:
        written = orjson.dumps(value)
        if written == raw:
            return value
    if _may_have_duplicates(raw, written):
        _refuse_duplicates(raw)
    return value


class _Shell(threading.local):
    """Arrays inside each other. `inside` is the innermost: its item is a value while this is written. Each thread has its own."""

    def __init__(self) -> None:
        self.inside: list[Any] = [None]
        self.outermost = self.inside
        for _ in range(_SHELL_LEVELS - 1):
            self.outermost = [self.outermost]


_shell = _Shell()


def load_measured_object(raw: bytes, measure: JsonMeasure) -> dict[str, Any]:
    """Return the object like `load_object`, for a large body whose text was measured.

    It may run in a thread: it lets other threads run between its steps, which are short (`codec/large_json.py`). The error for a
    duplicate name does not contain the name.
    """
    value = _parse_object(raw)
    if _count_values(value)[0] != measure.names:
        raise _duplicate_name_error()
    return value


def count_brackets(raw: bytes) -> int:
    """Return the number of opening brackets, those in strings too. Takes a few microseconds if there are few."""
    length = len(raw)
    return 2 * length - len(raw.replace(b"{", b"")) - len(raw.replace(b"[", b""))  # `bytes.count` looks at each byte


def is_surely_below(raw: bytes, brackets: int, max_cost: int) -> bool:
    """Return whether the cost of a JSON text is not above `max_cost`: the shortest member, such as ``"":0,``, has 5 bytes."""
    return len(raw) + CONTAINER_COST * brackets <= max_cost


def load_and_measure_object(raw: bytes, max_cost: int) -> tuple[dict[str, Any], JsonMeasure]:
    """Return the object like `load_measured_object`, and its measure, which takes less time for the parsed value.

    For a text that `is_surely_below` the limit, and so short that it may be parsed in one step.
    """
    try:
        value = _parse_object(raw)
    except RequestError:
        measure_json(raw, max_cost)  # the limit is checked first, also for a text that is not JSON
        raise
    names, cost = _count_values(value)
    written = orjson.dumps(value)
    if written != raw and _may_have_duplicates(raw, written) and measure_json(raw, max_cost).names != names:
        raise _duplicate_name_error()
    return value, make_measure(names, cost, len(raw) * find_text_width(written))


def _duplicate_name_error() -> RequestError:
    message = "A name occurs twice in one JSON object of the request body. Remove one of the two members."
    return RequestError(message, code="duplicate_name")


def _parse_object(raw: bytes) -> dict[str, Any]:
    try:
        value = load_json(raw)
    except orjson.JSONDecodeError as error:
        raise _invalid_json_error(raw, error) from None
    if type(value) is not dict:
        raise _no_object_error()
    return value


def _no_object_error() -> RequestError:
    return RequestError("The request body is valid JSON but not an object. Send a JSON object.", code="invalid_json")


def _may_have_duplicates(raw: bytes, written: bytes) -> bool:
    """Return whether `raw` may have a duplicate name that `written`, its parsed value as JSON, no longer has.

    Parsing drops a duplicate together with its colon. All other colons occur in both texts, even inside strings, unless they
    are escaped in `raw`.
    """
    if raw.count(b":") != written.count(b":"):
        return True
    if raw.find(b"\\") < 0:  # a single byte is found much faster
        return False
    return raw.rfind(b"\\u003") >= 0 and _ESCAPED_COLON.search(raw) is not None


def _invalid_json_error(raw: bytes, error: orjson.JSONDecodeError) -> RequestError:
    if not raw or (len(raw) <= WHOLE_BYTES and raw.isspace()):
        return RequestError("The request body is empty. Send a JSON object.", code="invalid_json")
    if len(raw) > WHOLE_BYTES:
        return RequestError(f"The request body is not valid JSON: {error.msg}.", code="invalid_json")
    reason = str(error)
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as broken:
        reason = f"byte {broken.start} is not UTF-8"
    return RequestError(f"The request body is not valid JSON: {reason}.", code="invalid_json")


def _count_values(value: dict[str, Any]) -> tuple[int, int]:
    """Return the number of names, and the cost (`JsonMeasure`). Raises RequestError for a value deeper than MAX_DEPTH."""
    names = cost = 0
    for objects, arrays in _iterate_levels(value):
        members, items = sum(map(len, objects)), sum(map(len, arrays))
        names += members
        filled = sum(map(bool, objects)) + sum(map(bool, arrays))
        cost += CONTAINER_COST * (len(objects) + len(arrays)) + NAME_COST * members + members + items - filled
    return names, cost


def _iterate_levels(value: dict[str, Any]) -> Iterator[tuple[list[dict[str, Any]], list[list[Any]]]]:
    """Yield the objects and the arrays of each level, from the outermost on. Works without recursion.

    Raises RequestError for a level deeper than MAX_DEPTH.
    """
    objects: list[dict[str, Any]] = [value]
    arrays: list[list[Any]] = []
    for _ in range(MAX_DEPTH):
        yield objects, arrays
        objects, arrays = _list_containers(objects, arrays)
        if not objects and not arrays:
            return
    raise _too_deep_error()


def _too_deep_error() -> RequestError:
    return RequestError(
        f"The request body exceeds the maximum JSON nesting of {MAX_DEPTH} levels. Send a flatter object.",
        code="invalid_json",
    )


def _list_containers(
    objects: list[dict[str, Any]], arrays: list[list[Any]]
) -> tuple[list[dict[str, Any]], list[list[Any]]]:
    """Return the objects and the arrays in `objects` and `arrays`.

    The innermost level, usually the largest, has none, which the set of its types shows. Otherwise plain loops are faster than
    functions of itertools.
    """
    kinds = set(map(type, chain.from_iterable(chain(map(dict.values, objects), arrays))))
    if _CONTAINERS.isdisjoint(kinds):
        return [], []
    inner_objects: list[dict[str, Any]] = []
    inner_arrays: list[list[Any]] = []
    item: Any
    for members in objects:
        for item in members.values():
            kind = type(item)
            if kind is dict:
                inner_objects.append(item)
            elif kind is list:
                inner_arrays.append(item)
    for items in arrays:
        for item in items:
            kind = type(item)
            if kind is dict:
                inner_objects.append(item)
            elif kind is list:
                inner_arrays.append(item)
    return inner_objects, inner_arrays


def _refuse_duplicates(raw: bytes) -> None:
    """Parse again with a slower parser that reports duplicate names; raise InvalidField. Only for suspicious bodies."""

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(items)
        if len(result) != len(items):
            names: set[str] = set()
            for name, _ in items:
                if name in names:
                    shown = name[:100]
                    message = f"The name '{shown}' occurs twice in one JSON object. Remove one of them."
                    raise InvalidField(shown, message, code="duplicate_name")
                names.add(name)
        return result

    json.loads(raw, object_pairs_hook=pairs)
