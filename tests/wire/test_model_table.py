"""Facts about models: which rows apply to a name, and faults in rows."""

from __future__ import annotations

import ast
from importlib import import_module, resources
from pathlib import Path
from typing import Any

import pytest
import yaml

from tornado_gate.errors import ConfigError
from tornado_gate.wire.model_features import ChatFeatures
from tornado_gate.wire.model_table import MAX_CACHED_NAMES, ModelRow, ModelTable, build_table, load_rows, read_rules

PLUGINS = Path(__file__).parents[2] / "plugins"
TABLES = sorted(path.relative_to(PLUGINS).as_posix() for path in PLUGINS.glob("*/tornado_gate_*/**/models.yaml"))


def row(*match: str, source: str = "s", **facts: Any) -> ModelRow:
    return ModelRow(match=match, facts=facts, source=source)


TABLE = ModelTable(
    ChatFeatures,
    [
        row("*", efforts=("low", "high"), most_stops=4),
        row("old-*", "*-older", efforts=()),
        row("old-2*", most_stops=1),
    ],
)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("unknown", ChatFeatures(efforts=("low", "high"), most_stops=4)),
        ("old-1", ChatFeatures(efforts=(), most_stops=4)),
        ("OLD-1", ChatFeatures(efforts=(), most_stops=4)),
        ("even-older", ChatFeatures(efforts=(), most_stops=4)),
        ("old-2", ChatFeatures(efforts=(), most_stops=1)),
        ("", ChatFeatures(efforts=("low", "high"), most_stops=4)),
    ],
)
def test_later_rows_refine_earlier_ones(model: str, expected: ChatFeatures) -> None:
    assert TABLE.find_features(model) == expected


def test_a_name_is_looked_up_once_and_the_cache_is_bounded() -> None:
    table = ModelTable(ChatFeatures, [row("*", most_stops=4)])
    assert table.find_features("a") is table.find_features("a")
    for number in range(2 * MAX_CACHED_NAMES):
        table.find_features(f"m{number}")
    assert len(table._found) <= MAX_CACHED_NAMES


def test_what_is_believed_is_explained_with_its_rows() -> None:
    told = TABLE.explain("old-2")
    assert told["facts"]["most_stops"] == 1
    assert [one["match"] for one in told["rows"]] == [["*"], ["old-*", "*-older"], ["old-2*"]]
    assert told["rows"][2] == {"match": ["old-2*"], "facts": {"most_stops": 1}, "source": "s"}


def test_conf_refines_what_a_plugin_knows() -> None:
    table = build_table(ChatFeatures, None, {"my-*": {"most_tools": 3}, "my-2": {"efforts": ["low"]}})
    assert table.find_features("my-1") == ChatFeatures(most_tools=3)
    assert table.find_features("my-2") == ChatFeatures(most_tools=3, efforts=("low",))
    assert table.find_features("other") == ChatFeatures()


@pytest.mark.parametrize(
    ("facts", "path", "said"),
    [
        ({"eforts": ["low"]}, ("model_rules", "m", "eforts"), "is unknown; did you mean 'efforts'?"),
        ({"zzz": 1}, ("model_rules", "m", "zzz"), "is unknown; allowed are custom_tools, drops, "),
        ({"most_tools": "3"}, ("model_rules", "m", "most_tools"), "is invalid: Expected `int | null`, got `str`"),
        ({"most_tools": True}, ("model_rules", "m", "most_tools"), "is invalid: "),
        ({"drops": ["colour"]}, ("model_rules", "m", "drops"), "is invalid: Invalid enum value 'colour'"),
        ("low", ("model_rules", "m"), "must be a mapping"),
    ],
)
def test_a_fault_is_told_at_its_key(facts: Any, path: tuple[str, ...], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_rules(ChatFeatures, {"m": facts})
    assert [one for one, _ in caught.value.faults] == [path]
    assert said in caught.value.faults[0][1]


@pytest.mark.parametrize(
    "text", ["efforts: []", "- {match: '*'}", "- {match: [], source: s}", "- {match: 1, source: s}"]
)
def test_a_fault_in_the_file_names_the_row(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "package_with_faults"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "models.yaml").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    load_rows.cache_clear()
    with pytest.raises(ConfigError) as caught:
        load_rows(ChatFeatures, "package_with_faults")
    assert caught.value.faults[0][0][0] == "models.yaml"


@pytest.mark.parametrize("table", TABLES)
def test_a_plugin_ships_its_table(table: str) -> None:
    """The file is package data, so that it is in the wheel and not only in the repository."""
    plugin, *folders, name = Path(table).parts
    package = ".".join(folders)
    arguments = read_setup_arguments(PLUGINS / plugin / "setup.py")
    assert name in arguments["package_data"][package]
    assert any(requirement.startswith("PyYAML") for requirement in arguments["install_requires"])
    assert resources.files(import_module(package)).joinpath(name).is_file()


@pytest.mark.parametrize("table", TABLES)
def test_every_row_says_where_its_facts_are_from(table: str) -> None:
    rows = yaml.safe_load((PLUGINS / table).read_text(encoding="utf-8"))
    assert rows[0]["match"] == "*"
    assert [row["match"] for row in rows if len(row["source"]) <= 10] == []


def read_setup_arguments(path: Path) -> dict[str, Any]:
    """The literal arguments of the call of `setup`."""
    calls = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    call = next(call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "setup")
    shipped = {"package_data", "install_requires"}
    return {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords if keyword.arg in shipped}
