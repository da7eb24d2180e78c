"""The commands in the examples of all pages exist, and so do their options."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click

from tests.docs.test_links import PAGES
from tornado_gate.cli import cli

_BLOCK = re.compile(r"^ *```(?:sh|bash|console|)\n(.*?)^ *```", re.M | re.S)
_COMMAND = re.compile(r"^ *(?:\$ )?(?:\S*/)?tornado-gate (.+?)(?:   .*)?$", re.M)


def iterate_commands() -> Iterator[tuple[str, str]]:
    """Each command line in a block of code, with the name of its page; without synopses, which have brackets or bars."""
    for page in PAGES:
        for block in _BLOCK.findall(page.read_text(encoding="utf-8")):
            for line in _COMMAND.findall(block.replace("\\\n", " ")):
                if not re.search(r" \| |\[|…", line.partition("#")[0]):
                    yield page.name, line


def find_fault(line: str) -> str:
    """What is wrong with a command line, or ""."""
    words = shlex.split(line.partition(" < ")[0], comments=True)
    command: click.Command = cli
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        name = words.pop(0)
        if name not in command.commands:
            return f"no command {name}"
        command = command.commands[name]
    known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    known |= {"--help", "-h"}
    return ", ".join(word for word in words if word.startswith("--") and word.partition("=")[0] not in known)


def test_commands_in_examples_exist_with_their_options() -> None:
    commands = list(iterate_commands())
    assert len(commands) > 25
    assert not [f"{page}: {line}: {fault}" for page, line in commands if (fault := find_fault(line))]


def test_a_wrong_command_or_option_is_found() -> None:
    assert find_fault("keys make --name ann") == "no command make"
    assert find_fault("keys create --nam ann") == "--nam"
    assert find_fault("keys create --name ann   # a comment") == ""
