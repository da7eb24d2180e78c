"""Runs one agent in one scenario at one upstream, in an empty home folder, and judges what came out."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from qa.agents.agents import PICTURE, Agent, Session
from qa.agents.images import make_picture
from qa.agents.scenarios import SCENARIOS, Scenario, done_word
from qa.agents.site import KEY, MODELS, Site

SECONDS = 120.0
"""The limit of one start of an agent."""
BIN = Path(sys.executable).parent
_MESSAGE = re.compile(r'"request_id":"[^"]+\.\d+"')
"""The access log's line of a request that was a message of a WebSocket: it has the id of the handshake and a number."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """`faults` is empty when the run passed. `requests` is how many the upstream got."""

    agent: str
    upstream: str
    scenario: str
    faults: tuple[str, ...]
    requests: int
    seconds: float


def run(site: Site, agent: Agent, upstream: str, scenario: str, folder: Path) -> Outcome:
    """Run it below `folder`, which keeps the workspace, the agent's output and the requests for a look."""
    shutil.rmtree(folder, ignore_errors=True)
    home, workspace = folder / "home", folder / "workspace"
    home.mkdir(parents=True)
    workspace.mkdir()
    (workspace / PICTURE).write_bytes(make_picture())
    started, before = time.monotonic(), len(site.gateway.logs)
    site.begin(scenario, workspace)
    faults: list[str] = []
    script = SCENARIOS[scenario]
    for number, prompt in enumerate(script.prompts):
        picture = script.attaches_picture and number == 0
        session = Session(site.url, KEY, MODELS[agent.family][upstream], prompt, number > 0, picture, str(workspace))
        word = (scenario == "count" and agent.count_word) or done_word(scenario, number)
        faults += _start(agent, session, home, workspace, word, folder / f"output{number}.txt")
    seen = site.seen()
    if scenario == "count":
        faults += _check_counts(agent, site.gateway.logs[before:])
    if agent.uses_websocket and _MESSAGE.search(site.gateway.logs[before:]) is None:
        faults.append("it opened no WebSocket")
    (folder / "requests.json").write_text(json.dumps(seen["requests"], indent=1), encoding="utf-8")
    faults = list(dict.fromkeys([*seen["faults"], *faults, *_check_files(script, workspace)]))
    (folder / "faults.txt").write_text("\n".join(faults), encoding="utf-8")
    return Outcome(agent.name, upstream, scenario, tuple(faults), len(seen["requests"]), time.monotonic() - started)


def _start(agent: Agent, session: Session, home: Path, workspace: Path, word: str, output: Path) -> list[str]:
    """Start the agent once and wait for its end; its faults."""
    for name, text in agent.files(session).items():
        file = home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    environment = {
        "PATH": f"{BIN}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(home),
        "TERM": "dumb",
        "LANG": "C.UTF-8",
        "NO_COLOR": "1",
        **agent.environment(session),
        **agent.unattended,
    }
    command = [str(agent.command), *agent.arguments(session)]
    with output.open("wb") as stream:
        process = subprocess.Popen(
            command,
            cwd=workspace,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )
        try:
            status: int | None = process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            status = None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # also what it left behind
        process.wait()
    text = output.read_text(encoding="utf-8", errors="replace")
    if status is None:
        return [f"did not end in {SECONDS:.0f} s: {_tail(text)}"]
    if status != 0:
        return [f"ended with status {status}: {_tail(text)}"]
    return [] if word in text else [f"did not print {word}: {_tail(text)}"]


def _check_counts(agent: Agent, logs: str) -> list[str]:
    """Faults of the token counts in the gateway's access log."""
    counts = [line for line in logs.splitlines() if agent.counts in line and '"status":' in line]
    if not counts:
        return ["it counted no tokens"]
    return [line[:200] for line in counts if '"status":200' not in line]


def _tail(text: str) -> str:
    return " ".join(text.split())[-300:]


def _check_files(scenario: Scenario, workspace: Path) -> list[str]:
    faults = []
    for name, wanted in scenario.files.items():
        file = workspace / name
        found = file.read_text(encoding="utf-8") if file.is_file() else None
        if found != wanted:
            faults.append(f"the file {name} is {found!r}, not {wanted!r}")
    return faults
