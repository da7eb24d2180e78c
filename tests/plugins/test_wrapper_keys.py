"""The keys that a wrapper covers at a real gateway: no member chooses a name by which a key enters or leaves its scope."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.distributions import install_module
from tests.support.gateway import Gateway, run_command

GUARD = """
from tornado_gate import guard_impl, types

class Guard:
    @guard_impl
    def review_request(self, texts):
        return types.Block(message="Not here.", status=403, code="house_rule")
"""
CONF = """
plugins: {{local: true, guard: {{keys: [{keys}]}}}}
providers: {{local: {{plugin: local}}}}
models: {{local-chat: {{provider: local}}}}
keys:
  - {{name: ci, key: test-key-of-ci-0123456789, team: research}}
  - {{name: free, key: test-key-of-free-0123456789}}
teams: {{research: {{}}}}
"""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("keys")
    gateway = Gateway.start(CONF.format(keys="ci"), folder, environment=install_module(folder / "site", "guard", GUARD))
    yield gateway
    gateway.stop()


def make_key(gateway: Gateway, name: str) -> tuple[str, str]:
    """A key of the store with a name that its owner has chosen; its ID and its text."""
    place = ("--conf", str(gateway.folder / "gate.yaml"), "--data-dir", str(gateway.folder / "var"))
    key = run_command("keys", "create", "--name", name, *place).stdout.split()[-1]
    listed = run_command("keys", "list", *place).stdout
    (identity,) = re.findall(rf"(key_[0-9a-f]{{12}})\s+{name}\b", listed)
    return identity, key


def is_covered(gateway: Gateway, key: str) -> bool:
    body = {"model": "local-chat", "messages": [{"role": "user", "content": "Hi"}]}
    headers = {"Authorization": f"Bearer {key}"}
    response = httpx.post(gateway.url + "/v1/chat/completions", json=body, headers=headers, trust_env=False, timeout=30)
    assert response.status_code in (200, 403), response.text
    return response.status_code == 403


@pytest.mark.qa
def test_a_name_that_a_member_chooses_neither_enters_nor_leaves_the_scope(gateway: Gateway) -> None:
    identity, named = make_key(gateway, "ci")
    _, other = make_key(gateway, "free")
    file = gateway.folder / "gate.yaml"
    before = file.read_text(encoding="utf-8")
    ci, free = "test-key-of-ci-0123456789", "test-key-of-free-0123456789"
    for number, (keys, covered) in enumerate((("ci", [ci]), (f'"{identity}"', [named]), ("research", [ci])), 1):
        if keys != "ci":
            file.write_text(before.replace("[ci]", f"[{keys}]"), encoding="utf-8")
            gateway.child.wait_for_line(f"configuration {number} is in force")
        assert [key for key in (ci, free, named, other) if is_covered(gateway, key)] == covered, keys


def test_a_glob_that_matches_no_key_of_conf_and_no_id_is_a_warning(tmp_path: Path) -> None:
    environment = install_module(tmp_path / "site", "guard", GUARD)
    file = tmp_path / "gate.yaml"
    keys = '"team-*", ci, "conf:free", research, "key_1f*", "team_*", "*", cj'
    file.write_text(CONF.format(keys=keys), encoding="utf-8")
    done = run_command("check", "--conf", str(file), environment=environment)
    warned = re.findall(r"plugins\.guard\.keys\.(\d): '([^']*)' matches no key", done.stdout + done.stderr)
    assert (done.returncode, warned) == (0, [("0", "team-*"), ("7", "cj")])
