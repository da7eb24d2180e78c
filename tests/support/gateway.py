"""The gateway as its users start it: the installed command, in a process of its own."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.process import Child

COMMAND = Path(sys.executable).with_name("tornado-gate")


@dataclass(frozen=True, slots=True)
class Gateway:
    """A running gateway. `url` has no path; OpenAI clients use ``url + "/v1"``."""

    child: Child
    url: str
    folder: Path

    @classmethod
    def start(cls, conf: str, folder: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> Gateway:
        """Serve `conf` (YAML) on a free port, with all its files below `folder`; it is ready when this returns.

        `arguments` are added to ``serve``. With ``--port 0`` the command prints its URL on stdout; this waits for
        that line. Raises ChildFailed with the output when the command exits instead.
        """
        file = folder / "gate.yaml"
        file.write_text(conf, encoding="utf-8")
        command = [str(COMMAND), "serve", "--conf", str(file), "--port", "0", "--data-dir", str(folder / "var")]
        child = Child([*command, *arguments], environment=environment, folder=folder)
        return cls(child, child.wait_for_line(r"^tornado-gate: serving (http://\S+)")[1], folder)

    @property
    def logs(self) -> str:
        """The output so far."""
        return self.child.output

    def stop(self) -> str:
        """Send SIGTERM, wait for the exit and return the output."""
        return self.child.stop()
