"""When a changed configuration file is read: never while somebody writes it."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tornado_gate.config.written import is_unwritten
from tornado_gate.server.process import reloader as module
from tornado_gate.server.process.configuration_state import ConfigurationState
from tornado_gate.server.process.heap import GARBAGE_THRESHOLDS
from tornado_gate.server.process.reloader import Reloader, get_file_state

CONF = """
providers:
  local: {plugin: local}
models:
  local-chat: {provider: local}
keys:
  - {name: one, key: first-key-0123456789}
  - {name: two, key: second-key-0123456789}
"""
LOOKS = 3


class Stage:
    """A reloader of one file, whose clock the test moves. `loaded` are the texts that it would have put in force."""

    def __init__(
        self, path: Path, monkeypatch: pytest.MonkeyPatch, probe: Callable[[Path | None], bool | None]
    ) -> None:
        self.path = path
        self.now = 0.0
        self.looks = 0
        self.loaded: asyncio.Queue[str] = asyncio.Queue()
        self._probe = probe
        self._loop = asyncio.get_running_loop()
        self._looked = asyncio.Event()
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: self.now))
        monkeypatch.setattr(module, "WATCH_SECONDS", 0.001)
        monkeypatch.setattr(module, "LOOK_SECONDS", 0.001)
        monkeypatch.setattr(module, "is_unwritten", self._look)
        path.write_text("# old\n", encoding="utf-8")
        services = cast(Any, SimpleNamespace(gate=None, configuration=ConfigurationState()))
        self.reloader = Reloader(services, cast(Any, None), cast(Any, None), path, get_file_state(path))
        monkeypatch.setattr(self.reloader, "reload", self._reload)

    def _look(self, path: Path | None) -> bool | None:
        self.looks += 1
        self._loop.call_soon_threadsafe(self._looked.set)
        return self._probe(path)

    async def _reload(self) -> bool:
        self.loaded.put_nowait(self.path.read_text(encoding="utf-8"))
        return True

    async def wait_for_looks(self) -> None:
        wanted = self.looks + LOOKS
        async with asyncio.timeout(60):
            while self.looks < wanted:
                self._looked.clear()
                await self._looked.wait()

    async def wait_for_load(self) -> str:
        async with asyncio.timeout(60):
            return await self.loaded.get()


def split_lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


@pytest.mark.parametrize("asks", [False, True])
def test_no_part_of_a_file_is_read_while_its_writer_has_it_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asks: bool
) -> None:
    """However slowly it writes, and also if SIGHUP arrives."""

    async def play() -> None:
        stage = Stage(tmp_path / "gate.yaml", monkeypatch, is_unwritten)
        watching = asyncio.ensure_future(stage.reloader.watch())
        with stage.path.open("w", encoding="utf-8") as writer:
            for line in split_lines(CONF):
                writer.write(line)
                writer.flush()
                if asks:
                    stage.reloader.request_reload()
                stage.now += 100
                await stage.wait_for_looks()
                assert stage.loaded.empty()
        stage.now += 100
        assert await stage.wait_for_load() == CONF
        watching.cancel()

    asyncio.run(play())


@pytest.mark.parametrize("probe", [lambda path: None, is_unwritten], ids=["without leases", "with leases"])
def test_no_part_of_a_file_is_read_while_it_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, probe: Callable[[Path | None], bool | None]
) -> None:
    """A writer that opens it again for each line, and never waits for so long as the file must be unchanged."""

    async def play() -> None:
        stage = Stage(tmp_path / "gate.yaml", monkeypatch, probe)
        watching = asyncio.ensure_future(stage.reloader.watch())
        stage.path.write_text("", encoding="utf-8")
        for line in split_lines(CONF):
            await stage.wait_for_looks()
            stage.now += module.SETTLED_SECONDS * 0.9
            await stage.wait_for_looks()
            assert stage.loaded.empty()
            with stage.path.open("a", encoding="utf-8") as writer:
                writer.write(line)
        await stage.wait_for_looks()
        stage.now += module.SETTLED_SECONDS
        assert await stage.wait_for_load() == CONF
        watching.cancel()

    asyncio.run(play())


def test_a_complete_file_is_read_at_once_after_sighup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> None:
        stage = Stage(tmp_path / "gate.yaml", monkeypatch, is_unwritten)
        watching = asyncio.ensure_future(stage.reloader.watch())
        stage.path.write_text(CONF, encoding="utf-8")
        await stage.wait_for_looks()
        assert stage.loaded.empty()  # the clock of the test does not move
        stage.reloader.request_reload()
        assert await stage.wait_for_load() == CONF
        watching.cancel()

    asyncio.run(play())


def test_a_snapshot_is_built_in_a_thread_with_short_garbage_collections_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        stage = Stage(tmp_path / "gate.yaml", monkeypatch, lambda path: True)
        monkeypatch.undo()
        monkeypatch.setattr(stage.reloader, "_build", lambda: (gc.get_threshold(), threading.current_thread()))
        built: list[Any] = []
        monkeypatch.setattr(stage.reloader, "_put_in_force", built.append)
        assert await stage.reloader.reload()
        ((thresholds, thread),) = built
        assert thresholds[0] == GARBAGE_THRESHOLDS[0]
        assert min(thresholds[1:]) > 1000 * max(GARBAGE_THRESHOLDS[1:])
        assert thread is not threading.current_thread()
        assert gc.get_threshold() == GARBAGE_THRESHOLDS

    asyncio.run(play())
