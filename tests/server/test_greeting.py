"""The set-up token: printed at every start while there is no account, once for all processes, and nowhere else."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.support.fixtures import StartGateway
from tests.support.gateway import COMMAND, Gateway
from tests.support.people import ADDRESS, PASSWORD
from tornado_gate.accounts.accounts import Accounts
from tornado_gate.database.opening import open_database

CONF = """
plugins: {local: true}
providers: {local: {plugin: local}}
models: {local-chat: {provider: local}}
keys: [{name: test, key: a-key-of-the-test-012}]
"""
LINE = re.compile(r"^tornado-gate: create the first account at (http://\S+)/console/signup\?token=(\S+)$", re.MULTILINE)


def test_the_token_is_printed_until_there_is_an_account(start_gateway: StartGateway, database_address: str) -> None:
    conf = CONF + (f"database: '{database_address}'\n" if database_address else "")
    first = start_gateway(conf)
    [(address, earlier)] = LINE.findall(first.stop())
    assert address == first.url
    second = Gateway.start(conf, first.folder)
    [(_, token)] = LINE.findall(second.stop())
    assert token != earlier
    database = open_database(first.folder / "var", database_address)
    accounts = Accounts(database, session_seconds=60)
    accounts.sign_up.create_account(
        "root@example.org", PASSWORD, setup_token=token, policy="closed", address=ADDRESS, agent=""
    )
    database.close()
    assert not LINE.findall(Gateway.start(conf, first.folder).stop())


@pytest.mark.qa
def test_several_processes_print_one_token_on_stdout_only(tmp_path: Path) -> None:
    (tmp_path / "gate.yaml").write_text(CONF)
    command = [COMMAND, "serve", "--conf", "gate.yaml", "--port", "0", "--processes", "2", "--data-dir", "var"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=None
    ) as process:
        assert process.stdout is not None
        lines = []
        while not lines or "serving" not in lines[-1]:
            lines.append(process.stdout.readline())
            assert lines[-1], "the gateway ended"
        process.terminate()
        stdout, stderr = process.communicate(timeout=60)
    [(_, token)] = LINE.findall("".join(lines) + stdout)
    assert token not in stderr


def test_a_gateway_without_a_console_prints_no_token(start_gateway: StartGateway) -> None:
    assert not LINE.findall(start_gateway(CONF + "console: {enabled: false}\n").stop())
