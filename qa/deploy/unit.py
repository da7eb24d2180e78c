"""The service unit: its exposure as systemd measures it, and a gateway that has no other system calls than the unit allows."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from functools import cache
from pathlib import Path

import httpx

from qa.deploy.fronts import find_program
from qa.deploy.image import SYSTEM_PYTHON, become
from qa.deploy.reading import DEPLOY, ROOT
from tests.support.process import Child

UNIT = DEPLOY / "tornado-gate.service"
MAX_EXPOSURE = 2.0
NOBODY = "65534"
CONF = """
plugins: {local: true}
providers: {local: {plugin: local}}
models: {local-chat: {provider: local}, local-embed: {provider: local}}
keys: [{name: test, key: key-of-a-caller-0123}]
"""


def measure_exposure() -> float:
    """Return the exposure of the unit, from 0 (safe) to 10."""
    analyze = find_program("systemd-analyze", "systemd")
    command = [analyze, "security", "--offline=true", "--no-pager", str(UNIT)]
    output = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    found = re.search(r"Overall exposure level for \S+: ([0-9.]+)", output)
    assert found, output
    return float(found[1])


def list_allowed_calls() -> set[str]:
    """Return the names of the system calls that the unit allows."""
    lines = re.findall(r"^SystemCallFilter=(~?)(.*)$", UNIT.read_text(encoding="utf-8"), re.MULTILINE)
    allowed = _expand("@default")
    for denied, words in lines:
        calls = set().union(*(_expand(word) for word in words.split()))
        allowed = allowed - calls if denied else allowed | calls
    return allowed | _expand("@default")


@cache
def _expand(word: str) -> frozenset[str]:
    if not word.startswith("@"):
        return frozenset({word})
    command = [find_program("systemd-analyze", "systemd"), "syscall-filter", "--no-pager", word]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    words = [line.split()[0] for line in output.splitlines()[1:] if line.strip() and not line.strip().startswith("#")]
    return frozenset().union(*(_expand(each) for each in words))


def check_confined_gateway(folder: Path, environment: Path, pyseccomp: Path) -> None:
    """Run the gateway of `environment` as another user with the unit's system calls: two processes, requests, SIGUSR2, stop.

    `pyseccomp` is the module's file.
    """
    names, conf, data, module = folder / "calls", folder / "gate.yaml", folder / "data", folder / "pyseccomp.py"
    names.write_text("\n".join(sorted(list_allowed_calls())))
    conf.write_text(CONF)
    shutil.copy(pyseccomp, module)
    shutil.copy(ROOT / "qa" / "deploy" / "confine.py", folder)
    data.mkdir()
    data.chmod(0o777)
    for path in (folder, *folder.iterdir()):
        path.chmod(path.stat().st_mode | 0o555)
    gateway = [f"{environment}/bin/tornado-gate", "serve", "--conf", str(conf), "--port", "0", "--processes", "2"]
    command = [*become(NOBODY), SYSTEM_PYTHON, f"{folder}/confine.py", str(names), *gateway, "--data-dir", str(data)]
    child = Child(command, folder=data, environment={"HOME": str(data), "PYTHONDONTWRITEBYTECODE": "1"})
    url = child.wait_for_line(r"^tornado-gate: serving (http://\S+)")[1]
    _send_requests(url)
    os.kill(child.process.pid, signal.SIGUSR2)
    child.wait_for_output("tornado-gate: serving", 2)
    _send_requests(url)
    output = child.stop()
    assert "Traceback" not in output, output


def _send_requests(url: str) -> None:
    headers = {"Authorization": "Bearer key-of-a-caller-0123"}
    chat = {"model": "local-chat", "messages": [{"role": "user", "content": "hi"}]}
    requests = {"/v1/chat/completions": chat, "/v1/embeddings": {"model": "local-embed", "input": "hi"}}
    with httpx.Client(base_url=url, headers=headers, timeout=60, trust_env=False) as client:
        for path, sent in requests.items():
            response = client.post(path, json=sent)
            assert response.status_code == 200, response.text
        assert client.get("/console/signup").status_code == 200
