"""The generated pages say what the code says, and say something about everything."""

from __future__ import annotations

import inspect

from tests.reference.hooks import find_specs, iterate_hooks
from tests.reference.kept_tables import find_tables
from tests.reference.metrics_page import KIND
from tests.reference.pages import METRICS, make_pages
from tests.reference.types_page import MODULES, find_types, iterate_fields
from tornado_gate import errors, types
from tornado_gate.server.console.reasons import REASONS
from tornado_gate.server.openapi.errors import STATUSES, STREAM_CODES


def test_the_pages_are_what_the_docstrings_say() -> None:
    for path, text in make_pages().items():
        assert path.read_text(encoding="utf-8") == text, f"docs/{path.name} is stale; run `make reference`"


def test_every_hook_says_when_and_where_it_is_called_and_what_it_raises() -> None:
    hooks = [hook for side, spec in find_specs().items() for hook in iterate_hooks(side, spec)]
    assert {"format", "provider", "plugin"} <= {hook.side for hook in hooks}
    missing = [
        f"{hook.heading}: {label}"
        for hook in hooks
        for label in ("When", "Where", "Coroutine", "Raises")
        if not hook.labels.get(label)
    ]
    assert not missing, f"add lines such as 'When: once for each request.' to the docstrings of {missing}"


def test_every_field_of_every_type_is_explained() -> None:
    missing = [
        f"{name}.{field}"
        for module in MODULES
        for name, value in find_types(module).items()
        if inspect.isclass(value)
        for field, _, _, meaning in iterate_fields(value)
        if not meaning
    ]
    assert not missing, f"the docstrings of their classes do not mention {missing} in backticks"


def test_no_public_type_is_missing() -> None:
    shown = {name for module in MODULES for name in find_types(module)}
    public = {name for name in types.__all__ if name[0].isupper() and not name.isupper()}
    plain_names = {"Operation"}  # a name for str
    assert public - shown == plain_names


def test_every_error_is_explained() -> None:
    unexplained = [
        error.__name__
        for error in vars(errors).values()
        if inspect.isclass(error) and not error.__dict__.get("__doc__")
    ]
    assert not unexplained


def test_every_metric_has_a_meaning() -> None:
    missing = [
        row[0] for _, rows in find_tables(KIND, METRICS.read_text(encoding="utf-8")) for row in rows if not row[-1]
    ]
    assert not missing, f"write the meaning of {missing} into docs/reference/metrics.md"


def test_every_code_has_words_of_its_own() -> None:
    codes = {code for _, codes in STATUSES.values() for code in codes} | STREAM_CODES
    assert not {code for code in codes if code not in REASONS}
