"""The tutorial, as a reader follows it: every file is written, every command is run, and what it prints is compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import Reader, find_free_port, make_environment, read_blocks

PAGE = "plugins/tutorial-plugin.md"


@pytest.mark.qa
def test_a_reader_gets_what_the_tutorial_prints(tmp_path: Path) -> None:
    ports = {"9000": find_free_port(), "8080": find_free_port()}
    folder = tmp_path / "work"
    folder.mkdir()
    reader = Reader(folder, make_environment(tmp_path / "venv"), ports)
    try:
        for block in read_blocks(PAGE):
            reader.follow(block)
    finally:
        reader.close()
        for command, seconds in reader.seconds.items():
            print(f"{seconds:6.2f} s  {command}")
