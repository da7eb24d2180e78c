"""Files of any content: an import never raises, and what it writes passes the checks of conf, or is reported."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.cli.importing.support import FILES, run
from tornado_gate.cli.importing.bifrost import read_bifrost
from tornado_gate.cli.importing.builder import ConfBuilder
from tornado_gate.cli.importing.litellm import read_litellm
from tornado_gate.cli.importing.new_api import read_new_api
from tornado_gate.cli.importing.portkey import read_portkey
from tornado_gate.cli.importing.verify import find_faults

NAMES = [
    *("model_list", "model_name", "litellm_params", "model", "model_info", "router_settings", "litellm_settings"),
    *("general_settings", "channels", "tokens", "users", "models", "strategy", "targets", "configs", "virtual_keys"),
    *("providers", "keys", "value", "governance", "budgets", "teams", "customers", "provider_configs"),
]
TEXTS = [
    "openai",
    "openai/gpt-4o",
    "azure/x",
    "*",
    "a b",
    "os.environ/A",
    "env.A",
    "${B}",
    "http://h:1/v1",
    "fallback",
    "loadbalance",
    "1d",
    "gpt-4o",
    "\x00",
    "ü",
]

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 10**12), st.floats(), st.sampled_from(TEXTS), st.text(max_size=8)
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(NAMES), inner, max_size=6)),
    max_leaves=40,
)
READERS: list[Callable[[Any], ConfBuilder]] = [read_litellm, read_new_api, read_portkey, read_bifrost]


@settings(max_examples=150)
@given(values)
@example({"model_list": [{"model_name": "m", "litellm_params": {"model": "openai/x", "rpm": float("inf")}}]})
def test_any_value_is_read_without_an_exception(value: Any) -> None:
    for reader in READERS:
        builder = reader(value)
        text = builder.format_text("a source")
        list(builder.report.format_lines())
        find_faults(text, Path("gate.yaml"))


FIXTURES: list[tuple[Callable[[Any], ConfBuilder], Any]] = [
    (read_litellm, yaml.safe_load((FILES / "litellm.yaml").read_text(encoding="utf-8"))),
    (read_portkey, json.loads((FILES / "portkey.json").read_text(encoding="utf-8"))),
    (read_bifrost, json.loads((FILES / "bifrost.json").read_text(encoding="utf-8"))),
    (
        read_new_api,
        {
            "channels": [
                {
                    "id": 1,
                    "type": 1,
                    "key": "a\nb",
                    "status": 1,
                    "name": "c",
                    "models": "m,n",
                    "weight": 1,
                    "priority": 0,
                }
            ],
            "tokens": [
                {"id": 1, "user_id": 1, "key": "k", "status": 1, "name": "t", "model_limits": "m", "allow_ips": ""}
            ],
            "users": [{"id": 1, "username": "ann", "status": 1, "group": "default"}],
        },
    ),
]


def replace_part(data: st.DataObject, value: Any) -> Any:
    """Return a copy of `value` in which one part, at any depth, is another value."""
    if not isinstance(value, dict | list) or not value or data.draw(st.integers(0, 5)) == 0:
        return data.draw(values)
    if isinstance(value, dict):
        name = data.draw(st.sampled_from(sorted(value)))
        return {**value, name: replace_part(data, value[name])}
    index = data.draw(st.integers(0, len(value) - 1))
    return [*value[:index], replace_part(data, value[index]), *value[index + 1 :]]


@pytest.mark.qa
@settings(max_examples=500)
@given(st.sampled_from(range(len(FIXTURES))), st.data())
def test_a_file_with_a_wrong_part_is_imported_with_a_report(index: int, data: st.DataObject) -> None:
    reader, source = FIXTURES[index]
    builder = reader(replace_part(data, source))
    text = builder.format_text("a source")
    list(builder.report.format_lines())
    find_faults(text, Path("gate.yaml"))


@pytest.mark.parametrize(
    ("product", "text"),
    [("litellm", "just text"), ("litellm", ""), ("portkey", "[]"), ("bifrost", "{}"), ("new-api", "[]")],
)
def test_a_file_without_anything_to_import_is_exit_code_1(tmp_path: Path, product: str, text: str) -> None:
    file, output = tmp_path / "other.txt", tmp_path / "gate.yaml"
    file.write_text(text, encoding="utf-8")
    result = run("import", product, file, "--output", output)
    assert (result.exit_code, output.exists()) == (1, False)
    assert "other.txt has no models, providers or keys to import" in result.output
