"""The databases of new-api and one-api as a configuration."""

from __future__ import annotations

import json
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.importing.support import import_conf, run
from tests.support.control import call
from tests.support.gateway import Gateway
from tests.support.upstream import Upstream
from tests.support.wire_answers import make_answer
from tornado_gate.cli.importing.new_api import read_new_api

NEW_API = """
CREATE TABLE channels (id integer PRIMARY KEY, type integer, key text, openai_organization text, status integer, name text,
  weight integer, base_url text, models text, `group` text, model_mapping text, status_code_mapping text, priority integer,
  tag text, setting text, param_override text, header_override text, channel_info json);
CREATE TABLE tokens (id integer PRIMARY KEY, user_id integer, key text, status integer, name text, expired_time integer,
  remain_quota integer, unlimited_quota numeric, model_limits_enabled numeric, model_limits text, allow_ips text, `group` text,
  deleted_at datetime);
CREATE TABLE users (id integer PRIMARY KEY, username text, role integer, status integer, `group` text, quota integer,
  deleted_at datetime);
"""
ONE_API = """
CREATE TABLE channels (id integer PRIMARY KEY, type integer, key text, status integer, name text, weight integer, base_url text,
  models text, `group` text, model_mapping text, priority integer, config text, system_prompt text);
CREATE TABLE tokens (id integer PRIMARY KEY, user_id integer, key text, status integer, name text, expired_time integer,
  remain_quota integer, unlimited_quota numeric, models text, subnet text);
CREATE TABLE users (id integer PRIMARY KEY, username text, role integer, status integer, `group` text, quota integer);
"""


def make_database(file: Path, schema: str, **tables: list[dict[str, Any]]) -> Path:
    database = sqlite3.connect(file)
    database.executescript(schema)
    for table, rows in tables.items():
        for row in rows:
            names = ", ".join(f"`{name}`" for name in row)
            marks = ", ".join("?" for _ in row)
            database.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", list(row.values()))
    database.commit()
    database.close()
    return file


def make_channel(**values: Any) -> dict[str, Any]:
    return {"type": 1, "key": "sk-up", "status": 1, "name": "c", "models": "gpt-4o", "group": "default", **values}


def make_token(**values: Any) -> dict[str, Any]:
    return {"user_id": 1, "key": "k" * 48, "status": 1, "name": "t", "expired_time": -1, "unlimited_quota": 1, **values}


USERS = [
    {"id": 1, "username": "ann", "role": 1, "status": 1, "group": "default"},
    {"id": 2, "username": "bob", "role": 1, "status": 1, "group": "vip"},
    {"id": 3, "username": "eve", "role": 1, "status": 2, "group": "default"},
]


@pytest.fixture
def upstream() -> Any:
    upstream = Upstream.start()
    yield upstream
    upstream.stop()


def test_channels_and_tokens_are_imported_and_served(upstream: Upstream, tmp_path: Path) -> None:
    upstream.script(make_answer("chat", ["Hello"], stream=False))
    channels = [
        make_channel(
            name="main account",
            base_url=upstream.url,
            models="gpt-4o,gizmo-*",
            model_mapping='{"gpt-4o": "gpt-4o-2024-11-20"}',
        )
    ]
    file = make_database(tmp_path / "one-api.db", NEW_API, channels=channels, tokens=[make_token()], users=USERS)
    result, conf = import_conf("new-api", file)
    assert result.exit_code == 0, result.output
    assert conf["models"] == {
        "gpt-4o": {"provider": "main-account", "model": "gpt-4o-2024-11-20"},
        "gizmo-*": {"provider": "main-account", "model": "gizmo-*"},
    }
    gateway = Gateway.start((tmp_path / "imported.yaml").read_text(encoding="utf-8"), tmp_path)
    try:
        body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}]}
        call("POST", f"{gateway.url}/v1/chat/completions", body, key=f"sk-{'k' * 48}")
    finally:
        gateway.stop()
    (request,) = upstream.requests
    assert (request.path, request.headers["authorization"]) == ("/v1/chat/completions", "Bearer sk-up")
    assert request.json["model"] == "gpt-4o-2024-11-20"


def test_priorities_weights_and_several_keys_are_carried(tmp_path: Path) -> None:
    channels = [
        make_channel(name="first", weight=30, priority=10, key="k1\nk2"),
        make_channel(name="second", weight=10, priority=10, type=14, models="gpt-4o,claude-sonnet-4-5"),
        make_channel(name="third", weight=5, priority=0, type=43, models="gpt-4o,deepseek-chat"),
        make_channel(name="off", status=2),
    ]
    file = make_database(tmp_path / "new.db", NEW_API, channels=channels, users=USERS)
    result, conf = import_conf("new-api", file)
    assert conf["models"]["gpt-4o"]["targets"] == [
        {"provider": "first", "weight": 1000000},
        {"provider": "second", "weight": 333333},
        {"provider": "third", "weight": 1},
    ]
    assert conf["providers"]["first"]["api_keys"] == ["k1", "k2"]
    assert conf["providers"]["third"] == {"plugin": "openai", "preset": "deepseek", "api_key": "sk-up"}
    assert conf["plugins"] == {"openai": True, "anthropic": True}
    assert result.exit_code == 0
    assert "the channel 'off' is disabled" in result.output


def test_the_types_of_one_api_are_told_from_those_of_new_api(tmp_path: Path) -> None:
    channels = [
        make_channel(type=36, name="a", weight=5),
        make_channel(type=29, name="b"),
        make_channel(type=45, name="c"),
    ]
    file = make_database(tmp_path / "one.db", ONE_API, channels=channels)
    _, conf = import_conf("new-api", file)
    assert [entry["preset"] for entry in conf["providers"].values()] == ["deepseek", "groq", "xai"]
    weights = [target["weight"] for target in conf["models"]["gpt-4o"]["targets"]]
    assert weights == [1, 1, 1], "one-api does not use the weights"


def test_tokens_have_the_models_of_their_limits_and_groups(tmp_path: Path) -> None:
    channels = [
        make_channel(models="gpt-4o,gpt-4o-mini", group="default,vip"),
        make_channel(name="v", models="o3", group="vip"),
    ]
    tokens = [
        make_token(name="two words", key="a" * 48),
        make_token(name="vip", key="b" * 48, user_id=2, allow_ips="10.0.0.0/8\n192.0.2.7"),
        make_token(name="limited", key="c" * 48, model_limits_enabled=1, model_limits="gpt-4o,o3"),
        make_token(name="expired", key="d" * 48, expired_time=int(time.time()) - 10),
        make_token(name="eve", key="e" * 48, user_id=3),
    ]
    file = make_database(tmp_path / "new.db", NEW_API, channels=channels, tokens=tokens, users=USERS)
    result, conf = import_conf("new-api", file)
    assert result.exit_code == 0, result.output
    assert conf["keys"] == [
        {
            "name": "two-words",
            "key": f"sk-{'a' * 48}",
            "account": "ann",
            "user": "ann",
            "models": ["gpt-4o", "gpt-4o-mini"],
        },
        {
            **{"name": "vip", "key": f"sk-{'b' * 48}", "account": "bob", "user": "bob"},
            "addresses": ["10.0.0.0/8", "192.0.2.7"],
        },
        {"name": "limited", "key": f"sk-{'c' * 48}", "account": "ann", "user": "ann", "models": ["gpt-4o"]},
    ]
    assert "the token 'expired' is left out" in result.output
    assert "the token 'eve' is left out: its user is disabled" in result.output


LOSSES: list[tuple[dict[str, Any], str]] = [
    ({"channels": [make_channel(type=33)]}, "AWS"),
    ({"channels": [make_channel(type=3)]}, "states no base_url"),
    ({"channels": [make_channel(param_override='{"temperature": 0}')]}, "param_override"),
    ({"channels": [make_channel(system_prompt="Be kind")]}, "system_prompt"),
    ({"channels": [make_channel()], "tokens": [make_token(unlimited_quota=0, remain_quota=5)]}, "a quota for all time"),
    ({"channels": [make_channel()], "tokens": [make_token(expired_time=4_000_000_000)]}, "do not expire"),
    ({"channels": [make_channel()], "tokens": [make_token(key="abcd**********wxyz")]}, "does not have its text"),
    ({"channels": [make_channel(group="vip")], "tokens": [make_token()]}, "no model is open to its group"),
    ({"channels": [make_channel()], "tokens": [make_token(subnet="10.0.0.0/99")]}, "not an address"),
    ({}, "channels"),
]


def test_what_conf_cannot_state_is_reported_with_the_reason() -> None:
    reports = [(expected, "\n".join(read_new_api(source).report.format_lines())) for source, expected in LOSSES]
    assert [report for expected, report in reports if expected not in report or "not carried" not in report] == []


def test_an_export_as_json_is_read_too(tmp_path: Path) -> None:
    file = tmp_path / "export.json"
    file.write_text(json.dumps({"data": {"items": [make_channel()]}}), encoding="utf-8")
    result, conf = import_conf("new-api", file)
    assert (result.exit_code, list(conf["models"])) == (0, ["gpt-4o"])


def test_another_database_is_an_error(tmp_path: Path) -> None:
    file = make_database(tmp_path / "other.db", "CREATE TABLE x (y integer);")
    result = run("import", "new-api", file)
    assert result.exit_code == 1
    assert "no table 'channels'" in result.output
