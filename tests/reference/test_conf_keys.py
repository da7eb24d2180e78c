"""docs/reference/configuration.md has every key of conf with its type, its default and a meaning."""

from __future__ import annotations

from marshmallow import INCLUDE

from tests.reference.conf_keys import ELSEWHERE, KIND, TABLES, iterate_schemas
from tests.reference.kept_tables import fill_tables, find_tables
from tests.reference.pages import CONFIGURATION, DOCS
from tornado_gate.config.schema import FileSchema

PAGE = CONFIGURATION.read_text(encoding="utf-8")


def test_every_mapping_of_conf_has_a_table() -> None:
    described = {schema for schema, _ in TABLES.values()}
    assert set(iterate_schemas(FileSchema())) <= described | set(ELSEWHERE)
    assert [name for name, _ in find_tables(KIND, PAGE)] == list(
        dict.fromkeys(name for name, _ in find_tables(KIND, PAGE))
    )
    assert {name for name, _ in find_tables(KIND, PAGE)} == set(TABLES)


def test_every_key_has_a_meaning() -> None:
    missing = [f"{name}: {row[0]}" for name, rows in find_tables(KIND, PAGE) for row in rows if not row[-1]]
    assert not missing, f"write the meaning of {missing} into docs/reference/configuration.md"


def test_the_settings_of_plugins_are_a_row() -> None:
    open_mappings = {name for name, (schema, _) in TABLES.items() if schema().unknown == INCLUDE}
    assert {name for name, rows in find_tables(KIND, PAGE) if rows[-1][0] == "other keys"} == open_mappings


def test_the_pages_about_prices_and_alerts_name_every_key() -> None:
    page = "".join((DOCS / name).read_text(encoding="utf-8") for name in ("how-to/prices.md", "deployment/alerts.md"))
    assert not [
        key
        for schema in ELSEWHERE
        for key in (field.data_key or name for name, field in schema().fields.items())
        if f"`{key}" not in page
    ]


def test_a_meaning_stays_with_its_key_and_a_new_key_has_none() -> None:
    page = "<!-- keys of t -->\n\n| key | default | meaning |\n|---|---|---|\n| `gone` | 1 | a |\n| `kept` | 1 | b |\n\nMore.\n"
    filled = fill_tables(KIND, page, ("key", "default", "meaning"), 1, lambda _: [("`new`", "2"), ("`kept`", "3")])
    assert filled == (
        "<!-- keys of t -->\n\n| key | default | meaning |\n|---|---|---|\n| `new` | 2 |  |\n| `kept` | 3 | b |\n\nMore.\n"
    )
