"""LiteLLM's database: keys by their hashes, which work at the gateway, with their teams, limits and budgets."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import psycopg
import pytest

from tests.cli.importing.support import FILES, run
from tests.support.control import call
from tests.support.gateway import Gateway
from tests.support.postgres import PostgresServer
from tests.support.upstream import Upstream
from tests.support.wire_answers import make_answer

CONF = """
model_list:
- model_name: gpt-4o
  litellm_params: {model: openai/gpt-4o, api_base: UPSTREAM/v1, api_key: k}
  model_info: {access_groups: [big]}
- {model_name: gpt-4o-mini, litellm_params: {model: openai/gpt-4o-mini, api_base: UPSTREAM/v1, api_key: k}}
general_settings: {master_key: sk-master-0123456789abcdef, database_url: postgresql://there}
"""


def make_text(alias: str) -> str:
    return f"sk-{alias}-0123456789"


def digest_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


KEYS: list[dict[str, Any]] = [
    {
        "key_alias": "ci",
        "team_id": "team-1",
        "models": ["all-team-models"],
        "rpm_limit": 60,
        "metadata": '{"tags": ["nightly"]}',
    },
    {"key_alias": "big only", "models": ["big"], "budget_id": "tier-1", "max_parallel_requests": 4},
    {"key_alias": "temporary", "expires": "2099-01-31 00:00:00", "max_budget": 5, "budget_duration": "1d"},
    {"key_alias": "weekly", "max_budget": 5, "budget_duration": "7d", "aliases": '{"a": "gpt-4o"}'},
    {"key_alias": "of ann", "user_id": "ann", "models": ["gpt-4o", "gpt-4o-mini"]},
    {"key_alias": "old", "expires": "2020-01-31 00:00:00"},
    {"key_alias": "blocked", "blocked": True},
    {"key_alias": "of a blocked team", "team_id": "team-2"},
    {"key_alias": "session", "team_id": "litellm-dashboard"},
    {"key_alias": "manager", "allowed_routes": ["management_routes"]},
    {"key_alias": "grouped", "access_group_ids": ["group-1"]},
    {"key_alias": "nothing", "models": ["no-default-models"]},
    {"key_alias": "of a lost team", "team_id": "team-9"},
    {"key_alias": "of a project", "project_id": "project-1"},
]


LIVING = ("ci", "big only", "temporary", "weekly", "of ann")


@pytest.fixture(scope="module")
def database(postgres: PostgresServer) -> Iterator[str]:
    address = postgres.create("litellm")
    with psycopg.connect(address) as connection:
        connection.execute((FILES / "litellm.sql").read_bytes())
        for key in KEYS:
            row = {"token": digest_text(make_text(key["key_alias"])), "key_name": "sk-...6789", **key}
            columns = ", ".join(f'"{name}"' for name in row)
            marks = ", ".join("%s" for _ in row)
            statement = f'INSERT INTO "LiteLLM_VerificationToken" ({columns}) VALUES ({marks})'
            connection.execute(statement.encode(), list(row.values()))
    yield address
    postgres.drop("litellm")


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    upstream = Upstream.start()
    upstream.script(replace(make_answer("chat", ["Hello"], stream=False), repeat=True))
    yield upstream
    upstream.stop()


def ask(gateway: Gateway, key: str, model: str) -> int:
    """Return the status of a chat request."""
    body = {"model": model, "messages": [{"role": "user", "content": "Hi"}]}
    try:
        call("POST", f"{gateway.url}/v1/chat/completions", body, key=key)
    except HTTPError as error:
        return error.code
    return 200


def test_a_key_of_which_only_the_hash_is_known_works_with_its_scopes(
    database: str, upstream: Upstream, tmp_path: Path
) -> None:
    source, output, keys = tmp_path / "config.yaml", tmp_path / "gate.yaml", tmp_path / "keys.json"
    source.write_text(CONF.replace("UPSTREAM", upstream.url), encoding="utf-8")
    result = run("import", "litellm", source, "--database", database, "--output", output, "--keys", keys)
    assert result.exit_code == 2, result.output
    assert keys.stat().st_mode & 0o777 == 0o600
    added = run("keys", "import", keys, "--conf", output, "--data-dir", tmp_path / "var")
    assert added.output.startswith("5 keys added to "), added.output
    again = run("keys", "import", keys, "--conf", output, "--data-dir", tmp_path / "var")
    assert again.output.startswith("0 keys added to "), again.output
    gateway = Gateway.start(output.read_text(encoding="utf-8"), tmp_path)
    try:
        statuses = {alias: ask(gateway, make_text(alias), "gpt-4o") for alias in LIVING}
        assert set(statuses.values()) == {200}, statuses
        refused = {key["key_alias"]: ask(gateway, make_text(key["key_alias"]), "gpt-4o") for key in KEYS[5:]}
        assert set(refused.values()) == {401}, refused
        assert ask(gateway, make_text("ci"), "gpt-4o-mini") == 200
        assert ask(gateway, make_text("big only"), "gpt-4o-mini") == 403
        rows = {
            row["name"]: row
            for row in call("GET", f"{gateway.url}/admin/v1/keys", key="sk-master-0123456789abcdef")["data"]
        }
    finally:
        gateway.stop()
    assert rows["ci"]["limits"] == {"requests_per_minute": 60}
    assert rows["ci"]["tags"] == ["nightly"]
    assert rows["big-only"]["limits"] == {"requests_per_minute": 90, "concurrent_requests": 4}
    assert rows["big-only"]["budget"] == {"usd_per_month": 20}
    assert (rows["of-ann"]["models"], rows["of-ann"]["budget"]) == (["gpt-4o"], {"usd_per_day": 10})
    assert rows["temporary"]["budget"] == {"usd_per_day": 5}


def test_teams_are_made_once_with_their_bounds_and_what_is_lost_is_reported(database: str, tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    result = run("import", "litellm", database, "--output", tmp_path / "gate.yaml", "--keys", keys)
    assert json.loads(keys.read_text(encoding="utf-8"))["teams"] == {
        "research": {
            "models": ["gpt-4o", "gpt-4o-mini"],
            "limits": {"tokens_per_minute": 100000},
            "budget": {"usd_per_month": 500},
        }
    }
    for expected in (
        "the key 'weekly', max_budget",
        "the key 'weekly', aliases",
        "the key 'manager': it is limited to some routes",
        "the key 'grouped': its models are those of an access group",
        "the key 'nothing': it allows no model",
        "the key 'of-a-lost-team': its team is not in the database",
        "the key 'of-a-project': it belongs to a project",
        "the model 'from-the-console' of the database",
        "budgets and limits of users",
        "keys of sessions of LiteLLM's console",
        "name that file, and the database with --database",
    ):
        assert expected in result.output.replace("not carried: ", ""), expected


def test_keys_that_have_no_file_are_reported_and_no_password_is_shown(database: str, tmp_path: Path) -> None:
    result = run("import", "litellm", database, "--output", tmp_path / "gate.yaml")
    assert "5 keys: only their hashes are known" in result.output
    wrong = run("import", "litellm", database.replace(":", ":wrong", 2).replace("postgresql:wrong", "postgresql:"))
    assert wrong.exit_code == 1
    assert "the database 'litellm' at" in wrong.output
    assert "wrong" not in wrong.output
    (other,) = run("import", "new-api", database).output.splitlines()
    assert other.endswith("has no table 'channels'; name the database of new-api or one-api, such as one-api.db")


FAULTS = [
    ("[]", 'must be {"teams"'),
    ("{", "is not JSON"),
    ('{"keys": [{"sha256": "00"}]}', "keys.0 must be a mapping with a name"),
    ('{"keys": [{"name": "a", "sha256": "00"}]}', "keys.0.sha256 must be the SHA-256"),
    ('{"keys": [{"name": "a", "sha256": "HASH", "team": "t"}]}', "keys.0.team 't' is not in `teams`"),
    ('{"keys": [{"name": "a", "sha256": "HASH", "limit": {}}]}', "keys.0 has the unknown member 'limit'"),
    (
        '{"keys": [{"name": "a", "sha256": "HASH", "limits": {"requests_per_minute": 0}}]}',
        "keys.0.requests_per_minute:",
    ),
    ('{"keys": [{"name": "a", "sha256": "HASH", "expires": "soon"}]}', "keys.0.expires must be a date"),
    ('{"teams": {"t": {"budget": {"x": 1}}}, "keys": []}', "'x' is none of"),
    ('{"teams": {"t": 1}, "keys": []}', "teams.t must be a mapping"),
    ('{"teams": {"t": {"limit": {}}}, "keys": []}', "teams.t has the unknown member 'limit'"),
]


def test_a_faulty_file_of_keys_is_refused_with_its_place_and_adds_nothing(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    wrong = []
    for text, expected in FAULTS:
        file.write_text(text.replace("HASH", digest_text("a")), encoding="utf-8")
        result = run("keys", "import", file, "--data-dir", tmp_path / "var")
        if result.exit_code != 1 or expected not in result.output:
            wrong.append((text, result.output))
    assert wrong == []
    keys = [{"name": "good", "sha256": digest_text("good")}, {"name": "bad", "sha256": "00"}]
    file.write_text(json.dumps({"keys": keys}), encoding="utf-8")
    assert run("keys", "import", file, "--data-dir", tmp_path / "var").exit_code == 1
    assert "good" not in run("keys", "list", "--data-dir", tmp_path / "var").output


def test_expired_keys_are_left_out(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    dates = {"old": "2020-01-01", "current": "2999-01-01", "endless": None}
    keys = [{"name": name, "sha256": digest_text(name), "expires": date} for name, date in dates.items()]
    file.write_text(json.dumps({"keys": keys}), encoding="utf-8")
    result = run("keys", "import", file, "--data-dir", tmp_path / "var")
    assert "'old' has expired and is left out" in result.output
    assert "2 keys added" in result.output


def test_a_device_without_an_end_is_no_file_of_keys(tmp_path: Path) -> None:
    result = run("keys", "import", "/dev/zero", "--data-dir", tmp_path / "var")
    assert result.exit_code == 1
    assert "is not a file" in result.output
