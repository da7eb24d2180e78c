"""The code blocks of a page, and a reader who writes its files, runs its commands and compares what they print."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.guides import DOCS
from tests.support.process import Child

_BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.M | re.S)
_FILE = re.compile(r"# ([\w./-]+\.(?:py|yaml))$")
ANYTHING = "…"
"""In the printed output of a command: any text, and alone on a line any lines."""


@dataclass(frozen=True, slots=True)
class Block:
    """One code block: ```LANGUAGE NOTE, its text, and its line in the page."""

    language: str
    note: str
    text: str
    line: int

    @property
    def path(self) -> str:
        """The file that its first line, a comment, names; "" without one."""
        found = _FILE.match(self.text.split("\n", 1)[0])
        return found[1] if found else ""


def read_blocks(page: str) -> list[Block]:
    """The code blocks of ``docs/PAGE``, in order."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return [
        Block(found[1], found[2].strip(), found[3], text.count("\n", 0, found.start()) + 1)
        for found in _BLOCK.finditer(text)
    ]


@dataclass(slots=True)
class Reader:
    """Follows a page in `folder`. `ports` maps the ports that the page prints to free ones, which are used in their place.

    A block whose first line is a comment with a path is a file. A block ``console`` has commands, each after ``$``, and what
    they print; with the note ``server``, one that keeps running: the reader waits for the printed lines.
    """

    folder: Path
    environment: Mapping[str, str]
    ports: Mapping[str, str]
    seconds: dict[str, float] = field(default_factory=dict)
    """How long each command took."""
    _servers: dict[str, Child] = field(default_factory=dict)

    def follow(self, block: Block) -> None:
        """Do what a block says. Raises AssertionError when a command prints something else, and for a block that says nothing."""
        if block.path:
            file = self.folder / block.path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(self._own(block.text), encoding="utf-8")
            return
        assert block.language == "console", f"line {block.line}: a block must name its file or be a console"
        for command, printed in split_commands(self._own(block.text)):
            started = time.monotonic()
            output = self._serve(command, printed) if block.note == "server" else self._run(command)
            self.seconds[command] = time.monotonic() - started
            assert matches(printed, output), (
                f"line {block.line}: `{command}` printed\n{output}\ninstead of\n{printed}\n{self.logs}"
            )

    def _own(self, text: str) -> str:
        for printed, own in self.ports.items():
            text = re.sub(rf"\b{printed}\b", own, text)
        return text

    def _run(self, command: str) -> str:
        done = subprocess.run(
            command,
            shell=True,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )
        return done.stdout

    def _serve(self, command: str, printed: str) -> str:
        """Start a command that keeps running, instead of the same one if it runs; wait for its last printed line."""
        if command in self._servers:
            self._servers.pop(command).stop()
        child = Child(["sh", "-c", f"exec {command}"], environment=self.environment, folder=self.folder)
        self._servers[command] = child
        child.wait_for_line(_make_pattern(printed.rstrip("\n").rsplit("\n", 1)[-1]))
        return (
            printed if matches(f"{ANYTHING}\n{printed}{ANYTHING}", child.output) else child.output
        )  # logs come between

    @property
    def logs(self) -> str:
        """What the servers have printed so far."""
        return "\n".join(f"--- {command}\n{child.output}" for command, child in self._servers.items())

    def close(self) -> None:
        """End all servers."""
        for child in self._servers.values():
            child.stop()


def split_commands(text: str) -> Iterator[tuple[str, str]]:
    """(command, what it prints) of a console; a line that ends with a backslash continues in the next."""
    for piece in re.split(r"^\$ ", text, flags=re.M)[1:]:
        command, _, printed = re.sub(r"\\\n", "\\\\\0", piece).partition("\n")
        yield command.replace("\\\0", "\\\n"), printed.replace("\\\0", "\\\n")


def matches(printed: str, output: str) -> bool:
    """Whether `output` is what a page prints, in which ``…`` stands for any text and a line ``…`` for any lines."""
    pattern = "".join(
        r"(?:[^\n]*\n)*" if line == ANYTHING else _make_pattern(line) + r"\n"
        for line in printed.strip("\n").split("\n")
    )
    return re.fullmatch(pattern, output.strip("\n") + "\n") is not None


def _make_pattern(line: str) -> str:
    """A regular expression for a printed line."""
    return "[^\n]*".join(re.escape(piece) for piece in line.split(ANYTHING))


def find_free_port() -> str:
    """A port of this machine on which nothing listens."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return str(listening.getsockname()[1])


def make_environment(folder: Path) -> dict[str, str]:
    """A virtual environment of its own that has what this one has, offline: for `pip install` as a page prints it."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    here = next(path for path in sys.path if path.endswith("site-packages"))
    customize = (
        f"import site\nsite.addsitedir({here!r})\n"  # not a .pth file: `tornado-gate check` warns of those with code
    )
    shared = folder / "shared"  # in PYTHONPATH: Debian's Python has a sitecustomize that hides one in site-packages
    shared.mkdir()
    (shared / "sitecustomize.py").write_text(customize, encoding="utf-8")
    for name in ("pip", "pytest", "tornado-gate"):
        script = Path(sys.executable).with_name(name).read_text(encoding="utf-8")
        own = folder / "bin" / name
        own.write_text(re.sub(r"\A#!.*", f"#!{folder}/bin/python", script), encoding="utf-8")
        own.chmod(0o755)
    offline = {"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0"}
    quick = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    places = {"PATH": f"{folder}/bin:{os.environ['PATH']}", "PYTHONPATH": str(shared), "VIRTUAL_ENV": str(folder)}
    return {**os.environ, **offline, **quick, **places}
