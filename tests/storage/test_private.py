"""What the gateway writes is for its own user only, whatever the umask is and whatever was there before."""

from __future__ import annotations

import json
import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.gateway import Gateway, run_command
from tornado_gate.plugins.failure_log import FailureLog
from tornado_gate.storage import private
from tornado_gate.storage.private import DataDirError, protect_data_dir
from tornado_gate.tasks.webhook_secrets import WebhookSecretStore

KEY = "test-key-of-private-files"
CONF = f"""
plugins: {{local: true}}
providers: {{local: {{plugin: local}}}}
models:
  local-chat: {{provider: local}}
  local-image: {{provider: local}}
  local-video: {{provider: local}}
  local-realtime: {{provider: local}}
keys: [{{name: test, key: {KEY}}}]
"""


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    """Everything that is created is open to everybody, unless its creator prevents it."""
    before = os.umask(0)
    yield
    os.umask(before)


def find_open(folder: Path) -> dict[str, str]:
    """The files and folders that others may read or write, with their modes."""
    modes = {path: stat.S_IMODE(path.lstat().st_mode) for path in (folder, *folder.rglob("*"))}
    assert len(modes) > 1
    return {str(path.relative_to(folder)): oct(mode) for path, mode in modes.items() if mode & 0o077}


@pytest.mark.qa
def test_nothing_that_a_gateway_writes_is_open_to_others(tmp_path: Path) -> None:
    gateway = Gateway.start(CONF, tmp_path, "--processes", "2")
    data_dir = tmp_path / "var"
    with httpx.Client(base_url=gateway.url, headers={"authorization": f"Bearer {KEY}"}, trust_env=False) as http:
        try:
            bodies = {
                "/v1/responses": {"model": "local-chat", "input": "hello"},
                "/v1/images/generations": {"model": "local-image", "prompt": "a fox", "response_format": "url"},
                "/v1/realtime/client_secrets": {"session": {"type": "realtime", "model": "local-realtime"}},
                "/v1/videos": {"model": "local-video", "prompt": "a fox", "seconds": "1", "size": "64x64"},
            }
            answers = {path: http.post(path, json=body, timeout=60) for path, body in bodies.items()}
            assert {answer.status_code for answer in answers.values()} == {200}, [a.text for a in answers.values()]
            task = answers["/v1/videos"].json()["id"]
            assert http.get(f"/v1/videos/{task}?wait=60", timeout=90).json()["status"] == "completed"
            created = run_command("keys", "create", "--name", "ann", "--data-dir", str(data_dir), folder=tmp_path)
            created.check_returncode()
            found = {path.name for path in data_dir.iterdir()}
            assert {"gate.db", "memory.db", "client-secrets.db", "media", "videos", "tasks"} <= found
            assert any(name.endswith("-wal") for name in found)
            assert find_open(data_dir) == {}
        finally:
            gateway.stop()
    assert find_open(data_dir) == {}


def test_what_is_written_without_the_umask_of_a_gateway_is_private_too(tmp_path: Path) -> None:
    data_dir = tmp_path / "var"
    WebhookSecretStore(data_dir).get("acme")
    failures = FailureLog(data_dir)
    failures.note("acme", "it failed")
    failures.write()
    assert json.loads((data_dir / "plugin-failures.json").read_text())["acme"]["error"] == "it failed"
    assert find_open(data_dir) == {}


@pytest.mark.parametrize("names", [("gate.db", "metrics/1.db", "notes"), (), ("tasks/x", "lost+found/y")])
def test_an_existing_folder_that_is_open_is_closed_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, names: tuple[str, ...]
) -> None:
    data_dir = tmp_path / "var"
    data_dir.mkdir(mode=0o777)
    for name in names:
        (data_dir / name).parent.mkdir(exist_ok=True)
        (data_dir / name).touch(mode=0o666)
    outside = tmp_path / "outside"
    outside.touch(mode=0o666)
    (data_dir / "media").symlink_to(outside)
    protect_data_dir(data_dir)
    assert stat.S_IMODE(data_dir.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.lstat().st_mode) for path in data_dir.iterdir() if not path.is_symlink()} <= {
        0o700,
        0o600,
    }
    assert stat.S_IMODE(outside.stat().st_mode) == 0o666, "a link is not followed"
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    caplog.clear()
    protect_data_dir(data_dir)
    assert not caplog.records


@pytest.mark.parametrize("mode", [0o755, 0o1777])
def test_a_folder_with_files_of_others_is_left_as_it_is_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int
) -> None:
    data_dir = tmp_path / "var"
    data_dir.mkdir()
    (data_dir / "log").mkdir()
    data_dir.chmod(mode)
    protect_data_dir(data_dir)
    assert stat.S_IMODE(data_dir.stat().st_mode) == mode
    assert "chmod 700" in caplog.text


def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() == 0:
        os.chown(tmp_path, 12345, -1)
    else:
        monkeypatch.setattr(private.os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(DataDirError, match="belongs to another user"):
        protect_data_dir(tmp_path)
    conf = tmp_path.parent / f"{tmp_path.name}.yaml"
    conf.write_text(CONF, encoding="utf-8")
    if os.geteuid() == 0:
        for command in (["serve", "--port", "0"], ["keys", "list"]):
            done = run_command(*command, "--conf", str(conf), "--data-dir", str(tmp_path))
            assert done.returncode == 1
            assert "belongs to another user" in done.stderr


def test_a_path_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "var").touch()
    with pytest.raises(DataDirError, match=r"server\.data_dir"):
        protect_data_dir(tmp_path / "var")
