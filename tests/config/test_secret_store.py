"""The encrypted secrets below the data directory, to which conf refers."""

from __future__ import annotations

import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.config.conftest import Conf
from tornado_gate.config.environment import fill
from tornado_gate.config.secret_store import (
    HISTORY_FILE,
    KEY_FILE,
    RETIRED_SECONDS,
    STORE_FILE,
    SecretError,
    SecretStore,
    UnknownSecret,
)
from tornado_gate.server.process import conf_history

VALUE = "sk-a-secret-of-this-test-0123456789"


def read_files(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def test_a_secret_is_read_again_and_is_in_no_file_in_clear(tmp_path: Path) -> None:
    SecretStore(tmp_path, {}).write("openai", VALUE)
    assert SecretStore(tmp_path, {}).read("openai") == VALUE
    assert VALUE.encode() not in read_files(tmp_path)
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}
    listed = SecretStore(tmp_path, {}).list_secrets()
    assert [secret.name for secret in listed] == ["openai"]
    assert VALUE not in repr(listed)


def test_an_unknown_secret_names_the_command_that_adds_it(tmp_path: Path) -> None:
    with pytest.raises(UnknownSecret, match="tornado-gate secrets set gone"):
        SecretStore(tmp_path, {}).read("gone")
    assert not list(tmp_path.iterdir())


def test_the_key_may_come_from_the_environment(tmp_path: Path) -> None:
    environment = {"GATE_SECRET_KEY": "k" * 32}
    SecretStore(tmp_path, environment).write("a", VALUE)
    assert not (tmp_path / KEY_FILE).exists()
    assert SecretStore(tmp_path, environment).read("a") == VALUE
    with pytest.raises(SecretError, match="GATE_SECRET_KEY has another key"):
        SecretStore(tmp_path, {"GATE_SECRET_KEY": "x" * 32}).read("a")
    with pytest.raises(SecretError, match=r"secrets.key is missing"):
        SecretStore(tmp_path, {}).read("a")
    with pytest.raises(SecretError, match="at least 32 characters"):
        SecretStore(tmp_path, {"GATE_SECRET_KEY": "short"}).read("a")


def test_a_rotation_keeps_the_earlier_texts_of_conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GATE_SECRET_KEY", raising=False)
    SecretStore(tmp_path, {}).write("a", VALUE)
    conf_history.keep_text(tmp_path, "1" * 64, "plugins: {}\n")
    assert SecretStore(tmp_path, {}).rotate() == 1
    assert conf_history.find_text(tmp_path, "1" * 64) == "plugins: {}\n", "a change can be undone after a rotation too"
    (tmp_path / HISTORY_FILE).write_text("damaged", encoding="utf-8")
    assert SecretStore(tmp_path, {}).rotate() == 1
    assert SecretStore(tmp_path, {}).read("a") == VALUE


def test_a_rotation_needs_the_old_key_only_once(tmp_path: Path) -> None:
    old, new = "o" * 32, "n" * 32
    SecretStore(tmp_path, {"GATE_SECRET_KEY": old}).write("a", VALUE)
    both = SecretStore(tmp_path, {"GATE_SECRET_KEY": f"{new},{old}"})
    assert both.read("a") == VALUE
    assert both.rotate() == 1
    assert SecretStore(tmp_path, {"GATE_SECRET_KEY": new}).read("a") == VALUE


def test_a_rotation_replaces_the_key_file(tmp_path: Path) -> None:
    store = SecretStore(tmp_path, {})
    store.write("a", VALUE)
    before = (tmp_path / KEY_FILE).read_text(encoding="utf-8")
    assert store.rotate() == 1
    assert (tmp_path / KEY_FILE).read_text(encoding="utf-8") != before
    assert store.read("a") == VALUE


def test_rotations_and_changes_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    names = [f"s{number}" for number in range(12)]
    start = threading.Barrier(4)

    def write(number: int) -> None:
        start.wait()
        for name in names[number::3]:
            SecretStore(tmp_path, {}).write(name, VALUE + name)

    def rotate() -> None:
        start.wait()
        for _ in range(4):
            SecretStore(tmp_path, {}).rotate()

    with ThreadPoolExecutor(4) as pool:
        for future in [*(pool.submit(write, number) for number in range(3)), pool.submit(rotate)]:
            future.result()
    assert {name: SecretStore(tmp_path, {}).read(name) for name in names} == {name: VALUE + name for name in names}


def test_values_of_two_secrets_cannot_be_exchanged(tmp_path: Path) -> None:
    store = SecretStore(tmp_path, {})
    store.write("a", "first-value")
    store.write("b", "second-value")
    file = tmp_path / STORE_FILE
    file.write_text(
        file.read_text(encoding="utf-8").replace('"a"', '"_"').replace('"b"', '"a"').replace('"_"', '"b"'),
        encoding="utf-8",
    )
    with pytest.raises(SecretError, match="the store was changed"):
        store.read("a")


def test_a_secret_that_conf_no_longer_names_is_deleted_after_a_month(tmp_path: Path) -> None:
    now = 1000.0
    store = SecretStore(tmp_path, {}, lambda: now)
    for name in ("used", "old", "other"):
        store.write(name, VALUE)
    store.write("draft", VALUE, is_draft=True)
    store.retire({"used"}, {"old"})
    assert {secret.name: secret.retired for secret in store.list_secrets()} == {
        "draft": now,
        "old": now,
        "other": None,
        "used": None,
    }
    now += RETIRED_SECONDS + 1
    store.retire({"used"})
    assert [secret.name for secret in store.list_secrets()] == ["other", "used"]


def test_a_damaged_store_says_so(tmp_path: Path) -> None:
    (tmp_path / STORE_FILE).write_text("{", encoding="utf-8")
    with pytest.raises(SecretError, match="is damaged"):
        SecretStore(tmp_path, {}).read("a")


def test_a_reference_has_the_secret_and_hides_it(tmp_path: Path) -> None:
    SecretStore(tmp_path, {}).write("a", VALUE)
    filled = fill(
        {"one": "Bearer ${secret:a}", "two": "${secret:gone:-x}", "three": "${secret:gone}"}, {}, data_dir=tmp_path
    )
    assert filled.values == {"one": f"Bearer {VALUE}", "two": "x"}
    assert VALUE not in repr(filled.values)
    assert filled.unset == [(("three",), "secret:gone")]


def test_an_unknown_secret_is_a_fault_with_its_line_unless_its_entry_is_off(conf: Conf, tmp_path: Path) -> None:
    text = (
        f"server: {{data_dir: {tmp_path}}}\nplugins: {{openai: %s}}\n"
        "providers: {o: {plugin: openai, base_url: 'http://127.0.0.1:1', api_key: '${secret:gone}'}}\n"
    )
    assert conf.report(text % "true") == [
        "FILE:3: providers.o.api_key: the secret gone does not exist; run 'tornado-gate secrets set gone' to add it, "
        "or write ${secret:gone:-default}"
    ]
    assert conf.report(text % "false") == []
