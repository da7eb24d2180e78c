"""A gateway in a separate process, with the built-in configuration, a key and a temporary data directory."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

from tornado_gate.types.value import Value

START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 15.0
REQUEST_SECONDS: Final = 60.0
MAX_BODY_BYTES: Final = 64 * 1024 * 1024
_KEY: Final = re.compile(r"^[ \t]+(tg-\S+)$", re.MULTILINE)
_SERVING: Final = re.compile(r"^tornado-gate: serving (http://\S+)$", re.MULTILINE)
_OPENER: Final = build_opener(ProxyHandler({}))


class NotStarted(Exception):
    """The gateway has not started. The message is the end of its output."""


class Answer(Value, frozen=True):
    """A response: status (0 without one, with the reason as body), media type, and body."""

    status: int
    media_type: str
    body: bytes


class TemporaryGateway(Value, frozen=True):
    """A running gateway: its address without a path, and an API key."""

    url: str
    key: str

    def send(
        self, method: str, address: str, headers: dict[str, str] | None = None, body: bytes | None = None
    ) -> Answer:
        """Send a request to a path or an address of this gateway, and return the whole response."""
        target = address if address.startswith(f"{self.url}/") else self.url + address
        own = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json", **(headers or {})}
        request = Request(target, data=body, method=method, headers=own)
        try:
            with _OPENER.open(request, timeout=REQUEST_SECONDS) as response:
                return Answer(response.status, response.headers.get_content_type(), response.read(MAX_BODY_BYTES))
        except HTTPError as error:
            with error:
                return Answer(error.code, error.headers.get_content_type(), error.read(MAX_BODY_BYTES))
        except (URLError, OSError, TimeoutError) as error:
            return Answer(0, "", str(error).encode())


@contextmanager
def start_gateway() -> Iterator[TemporaryGateway]:
    """Yield a gateway that has started, and stop it. Raises NotStarted."""
    with TemporaryDirectory(prefix="tornado-gate-selftest-") as folder:
        environment = {name: value for name, value in os.environ.items() if name != "TORNADO_GATE_CONF"}
        command = [
            sys.executable,
            "-m",
            "tornado_gate",
            "serve",
            "--port",
            "0",
            "--data-dir",
            str(Path(folder) / "var"),
        ]
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        try:
            yield _wait_for_start(process)
        finally:
            _stop(process)


def _wait_for_start(process: subprocess.Popen[str]) -> TemporaryGateway:
    """Read the output until the gateway serves. A thread reads the rest, so that writing never blocks the process."""
    assert process.stdout is not None
    timer = threading.Timer(START_SECONDS, process.kill)
    timer.start()
    output = ""
    try:
        for line in process.stdout:
            output += line
            serving, key = _SERVING.search(output), _KEY.search(output)
            if serving is not None and key is not None:
                threading.Thread(target=process.stdout.read, daemon=True).start()
                return TemporaryGateway(serving[1], key[1])
    finally:
        timer.cancel()
    raise NotStarted(output[-2000:] or f"no output in {START_SECONDS:.0f} s")


def _stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
