"""A fork of the fork server is what a new process would be."""

from __future__ import annotations

import os
import select
import signal
import sys
from pathlib import Path

import pytest

from tests.support.fork_server import ForkServer, get_fork_server
from tests.support.gateway import COMMAND, Gateway, run_command
from tests.support.process import REPOSITORY, Child

CONF = """
plugins: {local: true}
providers: {local: {plugin: local}}
models: {local-chat: {provider: local}}
keys: [{name: test, key: "${KEY_OF_FORKS}"}]
"""
ENVIRONMENT = {"KEY_OF_FORKS": "a-key-of-the-forks-012"}
ORPHAN = """
import os, signal, sys
from pathlib import Path
from tests.support.gateway import Gateway
gateway = Gateway.start(sys.argv[1], Path(sys.argv[2]), environment={"KEY_OF_FORKS": "a-key-of-the-forks-012"})
print("gateway", gateway.child.process.pid)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_command_has_its_folder_its_environment_and_its_outputs(tmp_path: Path) -> None:
    (tmp_path / "gate.yaml").write_text(CONF, encoding="utf-8")
    done = run_command("check", "--conf", "gate.yaml", folder=tmp_path, environment=ENVIRONMENT)
    assert (done.returncode, done.stderr) == (0, ""), done
    refused = run_command("check", "--conf", "gate.yaml", folder=tmp_path)
    assert refused.returncode == 1
    assert "KEY_OF_FORKS" in refused.stdout
    unknown = run_command("nothing", folder=tmp_path)
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "No such command" in unknown.stderr


def test_a_gateway_is_like_one_of_the_installed_command(tmp_path: Path) -> None:
    states = []
    for installed in (False, True):
        folder = tmp_path / str(installed)
        folder.mkdir()
        gateway = Gateway.start(CONF, folder, environment=ENVIRONMENT, installed=installed)
        process = gateway.child.process
        assert os.getsid(process.pid) == process.pid
        assert os.readlink(f"/proc/{process.pid}/cwd") == str(folder)
        inputs = [os.readlink(f"/proc/{process.pid}/fd/{number}").partition(":")[0] for number in range(3)]
        output = gateway.stop().replace(str(folder), "").replace(gateway.url, "")
        states.append(
            (inputs, process.returncode, [line.split(" ")[:2] for line in output.splitlines() if "{" not in line])
        )
    assert states[0] == states[1]


def test_a_killed_gateway_has_the_signal_as_its_status(tmp_path: Path) -> None:
    gateway = Gateway.start(CONF, tmp_path, environment=ENVIRONMENT)
    assert gateway.child.process.poll() is None
    gateway.child.kill()
    assert gateway.child.process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("name", ["PYTHONHASHSEED", "LD_PRELOAD", "TZ"])
def test_what_only_a_new_process_reads_is_not_left_to_a_fork(name: str) -> None:
    assert not get_fork_server().can_start({**os.environ, name: "1"})
    assert get_fork_server().can_start({**os.environ, "PYTHONPATH": "/nowhere"})


@pytest.mark.qa
def test_gateways_end_with_a_process_of_tests_that_is_killed(tmp_path: Path) -> None:
    tests = Child([sys.executable, "-c", ORPHAN, CONF, str(tmp_path)], folder=REPOSITORY)
    pid = int(tests.wait_for_line(r"^gateway (\d+)$")[1])
    try:
        gateway = os.pidfd_open(pid)
    except ProcessLookupError:  # it has ended already
        return
    assert select.select([gateway], [], [], 30)[0], f"process {pid} still runs"
    os.close(gateway)


def test_the_installed_command_exists() -> None:
    assert COMMAND.is_file()


def test_a_fork_server_that_cannot_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "click.py").write_text("raise ImportError('no clicks today')", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    broken = ForkServer()
    for _ in range(2):
        with pytest.raises(AssertionError, match="no clicks today"):
            broken.start(["--version"], os.environ, tmp_path, stderr=False)
    broken.close()
