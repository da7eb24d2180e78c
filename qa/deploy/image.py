"""The steps of the Dockerfile, executed below a folder without a container, and the gateway that results.

Paths of the image are prefixed with the folder. The user of the image runs the gateway: he can write into its data folder only.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import httpx

from qa.deploy.fronts import find_free_port, find_program
from qa.deploy.reading import ROOT, Instruction, get_exec_form, read_dockerfile
from tests.support.process import Child

USER = "10001"
SYSTEM_PYTHON = "/usr/bin/python3"
"""A Python that other users may execute, with the package python3-venv."""
IMAGE_PATHS = ("/opt/", "/src", "/var/lib/tornado-gate", "/etc/tornado-gate")
LEFT_OUT = ("plugins/demo-media", "/tests/")
"""Parts of paths that Dockerfile.dockerignore leaves out."""


def build(folder: Path) -> int:
    """Execute the COPY and RUN steps of both stages below `folder`. Return the bytes of the installed environment."""
    for name in ("src", "opt", "etc", "var/lib"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for name in ("passwd", "group", "shadow", "gshadow", "login.defs"):
        shutil.copy(f"/etc/{name}", folder / "etc" / name)
    build_stage, final_stage = read_dockerfile()
    for instruction in build_stage:
        if instruction.word == "COPY":
            _copy(instruction, folder)
        elif instruction.word == "RUN":
            _run(instruction.text, folder, folder / "src")
    for instruction in final_stage:
        if instruction.word == "RUN":
            _run(instruction.text.replace("useradd ", f"useradd --prefix {folder} "), folder, folder)
    (folder / "etc" / "tornado-gate").mkdir()
    shutil.copy(ROOT / "conf" / "gate.yaml", folder / "etc" / "tornado-gate" / "gate.yaml")
    environment = folder / "opt" / "tornado-gate"
    return sum(file.lstat().st_size for file in environment.rglob("*") if file.is_file())


def become(user: str) -> list[str]:
    """Return the words before a command that run it as the user with this number, without other rights.

    Where only root may read the system's own folders, the user may read everything, and still write only what is his.
    """
    words = [
        find_program("setpriv", "util-linux"),
        "--reuid",
        user,
        "--regid",
        user,
        "--clear-groups",
        "--no-new-privs",
    ]
    if all(Path(path).stat().st_mode & 0o001 for path in ("/", "/usr", "/usr/lib", "/tmp")):
        return words
    right = "+dac_read_search"
    return [*words, "--securebits=+no_setuid_fixup", f"--inh-caps={right}", f"--ambient-caps={right}"]


def _copy(instruction: Instruction, folder: Path) -> None:
    """Copy the committed and changed files of a COPY step."""
    *sources, _target = instruction.text.split()
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *sources]
    files = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert files, f"COPY {instruction.text}: no such file"
    for name in files:
        if not any(part in name for part in LEFT_OUT):
            target = folder / "src" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target)


def _run(command: str, folder: Path, cwd: Path) -> None:
    command = command.replace("python -m venv", f"{SYSTEM_PYTHON} -m venv --copies")
    for path in IMAGE_PATHS:
        command = command.replace(f" {path}", f" {folder}{path}")
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore"}
    result = subprocess.run(
        ["sh", "-ec", command], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, f"RUN {command}\n{result.stdout}{result.stderr}"


def check(folder: Path) -> None:
    """Start the image's command as its user, ask its health check, and check that nothing but the data folder has changed."""
    _, final = read_dockerfile()
    port, data = find_free_port(), folder / "var" / "lib" / "tornado-gate"
    command = [*get_exec_form(final, "ENTRYPOINT"), *get_exec_form(final, "CMD"), "--port", str(port)]
    command = [f"{folder}{word}" if word.startswith("/") else word for word in command]
    command = ["127.0.0.1" if word == "0.0.0.0" else word for word in command]
    command[0] = f"{folder}/opt/tornado-gate/bin/{command[0]}"
    user = become(USER)
    environment = {"HOME": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1"}
    before = _list_files(folder, data)
    child = Child([*user, *command], folder=data, environment=environment)
    child.wait_for_line(r"^tornado-gate: serving (http://\S+)")
    probe = [word.replace(":8080/", f":{port}/") for word in get_exec_form(final, "HEALTHCHECK")]
    probe[0] = f"{folder}/opt/tornado-gate/bin/{probe[0]}"
    assert subprocess.run([*user, *probe], check=False).returncode == 0, child.output
    key = child.wait_for_output("Bearer ").partition("Bearer ")[2].split("'")[0].split('"')[0]
    body = {"model": "local-chat", "messages": [{"role": "user", "content": "hi"}]}
    url = f"http://127.0.0.1:{port}/v1/chat/completions"
    response = httpx.post(url, json=body, headers={"Authorization": f"Bearer {key}"}, timeout=60, trust_env=False)
    assert response.status_code == 200, response.text
    child.stop()
    assert _list_files(folder, data) == before
    assert (data.stat().st_mode & 0o777) == 0o700


def _list_files(folder: Path, data: Path) -> set[tuple[str, int]]:
    return {(str(file), file.lstat().st_mtime_ns) for file in folder.rglob("*") if not file.is_relative_to(data)}
