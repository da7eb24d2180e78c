"""Tests of the Node scripts' runner, of the pinned npm packages and of aimock."""

from __future__ import annotations

import json

import pytest

from tests.support.aimock import Aimock
from tests.support.control import call
from tests.support.node import FOLDER, ScriptFailed, run_script


def test_script_that_fails_shows_its_stderr() -> None:
    with pytest.raises(ScriptFailed, match="no-such-script"):
        run_script("no-such-script.mjs")


def test_lock_file_names_versions_and_no_addresses_of_packages() -> None:
    lock = json.loads((FOLDER / "package-lock.json").read_text())
    packages = {name: entry for name, entry in lock["packages"].items() if name}
    assert all(entry["integrity"] and "resolved" not in entry for entry in packages.values())
    wanted = json.loads((FOLDER / "package.json").read_text())["dependencies"]
    assert {name: packages[f"node_modules/{name}"]["version"] for name in wanted} == wanted


def test_aimock_answers_and_keeps_a_journal(aimock: Aimock) -> None:
    ask = {"model": "journalled", "messages": [{"role": "user", "content": "Say hello"}]}
    answer = call("POST", f"{aimock.url}/v1/chat/completions", ask, key=aimock.key)
    assert answer["choices"][0]["message"]["content"].startswith("Hello")
    latest = aimock.journal()[-1]
    assert (latest.path, latest.status, latest.interrupted) == ("/v1/chat/completions", 200, False)
    assert latest.body["model"] == "journalled"
