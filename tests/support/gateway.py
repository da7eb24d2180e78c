"""The gateway in a process of its own, with its command line."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.fork_server import get_fork_server
from tests.support.process import Child

COMMAND = Path(sys.executable).with_name("tornado-gate")


@dataclass(frozen=True, slots=True)
class Gateway:
    """A running gateway. `url` has no path; OpenAI clients use ``url + "/v1"``."""

    child: Child
    url: str
    folder: Path

    @classmethod
    def start(
        cls,
        conf: str,
        folder: Path,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        installed: bool = False,
        prefix: Sequence[str] = (),
    ) -> Gateway:
        """Serve `conf` (YAML) on a free port, with all its files below `folder`; it is ready when this returns.

        `arguments` are added to ``serve``. `prefix` stands before an installed command, such as ``ip netns exec NAME``.
        `installed`: run the installed command, which imports all modules; otherwise the process is a fork of one that has
        imported them, which starts in a sixth of the time. With ``--port 0`` the command prints its URL on stdout; this waits for
        that line. Raises ChildFailed with the output when the command exits instead.
        """
        file = folder / "gate.yaml"
        file.write_text(conf, encoding="utf-8")
        command = [
            *prefix,
            str(COMMAND),
            "serve",
            "--conf",
            str(file),
            "--port",
            "0",
            "--data-dir",
            str(folder / "var"),
        ]
        child = Child([*command, *arguments], environment=environment, folder=folder, forked=not installed)
        return cls(child, child.wait_for_line(r"^tornado-gate: serving (https?://\S+)")[1], folder)

    @property
    def logs(self) -> str:
        """The output so far. Lines about a request that has just been answered may still be missing: see `wait_for_log`."""
        return self.child.output

    def wait_for_log(self, text: str, count: int = 1) -> str:
        """Wait until the output contains `text` `count` times, and return the output. Raises ChildFailed when it does not."""
        return self.child.wait_for_output(re.escape(text), count)

    def stop(self) -> str:
        """Send SIGTERM, wait for the exit and return the output."""
        return self.child.stop()


def run_command(
    *arguments: str,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    seconds: float = 60.0,
    text: str = "",
) -> subprocess.CompletedProcess[str]:
    """Run `tornado-gate` with these arguments to its end, in a process of its own. After `seconds` it is killed.

    `text` is its standard input.
    """
    environment = {**os.environ, **(environment or {})}
    if not get_fork_server().can_start(environment):
        return subprocess.run(
            [str(COMMAND), *arguments],
            cwd=folder,
            env=environment,
            input=text,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )
    with tempfile.TemporaryFile() as stdin:
        stdin.write(text.encode())
        stdin.seek(0)
        process = get_fork_server().start(
            arguments, environment, folder or Path.cwd(), stderr=True, stdin=stdin.fileno()
        )
    errors: list[str] = []
    reader = threading.Thread(target=lambda: errors.append(process.stderr.read()))
    killer = threading.Timer(seconds, process.kill)
    reader.start()
    killer.start()
    with process.stdout, process.stderr:
        output = process.stdout.read()
        reader.join()
    killer.cancel()
    return subprocess.CompletedProcess(list(arguments), process.wait(seconds), output, errors[0])
