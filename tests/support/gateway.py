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
    """A running gateway. `url` has no path; clients of format O take ``url + "/v1"``."""

    child: Child
    url: str
    folder: Path

    @classmethod
    def start(cls, conf: str, folder: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> Gateway:
        """Serve `conf` (YAML) on a free port, with everything it writes below `folder`; it is ready when this returns.

        `arguments` are further ones for ``serve``. With ``--port 0`` the command announces its address on stdout, which
        is what is waited for. Raises ChildFailed, with what it printed, when it ends instead.
        """
        file = folder / "gate.yaml"
        file.write_text(conf, encoding="utf-8")
        command = [str(COMMAND), "serve", "--conf", str(file), "--port", "0", "--data-dir", str(folder / "var")]
        child = Child([*command, *arguments], environment=environment, folder=folder)
        return cls(child, child.wait_for_line(r"^tornado-gate: serving (http://\S+)")[1], folder)

    @property
    def logs(self) -> str:
        """All that it has printed so far."""
        return self.child.output

    def stop(self) -> str:
        """Ask it to end (SIGTERM), wait until it has, and return all that it printed."""
        return self.child.stop()
