"""The parts of a serving process: what conf says reaches them, expired files are deleted, sessions end when it drains."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.gates import FakeProvider, make_config, make_services
from tornado_gate.config.model import LimitsConfig, RealtimeConfig, VideosConfig
from tornado_gate.errors import GateError
from tornado_gate.pipeline.snapshot_builder import build
from tornado_gate.server.services import Services
from tornado_gate.storage.files import MediaStore
from tornado_gate.types import Caller, replace


@pytest.fixture
def services(tmp_path: Path) -> Services:
    return make_services(tmp_path, make_config(tmp_path), fake=FakeProvider())


@pytest.mark.gen_test
async def test_expired_files_are_looked_for(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    swept = [asyncio.Event(), asyncio.Event()]

    async def sweep_media() -> None:
        swept[0].set()

    async def sweep_videos() -> None:
        swept[1].set()

    monkeypatch.setattr(MediaStore, "sweep_seconds", 0.001)
    monkeypatch.setattr(services.media, "sweep", sweep_media)
    monkeypatch.setattr(services.tasks.files, "sweep", sweep_videos)
    await services.start()
    for store in swept:
        await store.wait()
    await services.close()


def test_a_new_configuration_reaches_every_part(services: Services) -> None:
    gate = services.gate
    config = replace(gate.snapshot.config, limits=LimitsConfig(bodies_bytes=123), videos=VideosConfig(max_bytes=456))
    services.replace(build(config, gate.host, 2))
    assert gate.snapshot.number == 2
    assert services.bodies.total == 123
    assert services.tasks.files.max_bytes == 456
    assert services.tasks.engine.rules is config.videos
    assert services.fetcher.rules is config.fetch


def test_sessions_end_when_the_process_drains(services: Services) -> None:
    ended: list[bool] = []

    class Session:
        caller, key_digest, model = Caller(id="k", account="a"), b"", "m"

        def shut_down(self) -> None:
            ended.append(True)

        def revoke(self, error: GateError) -> None:
            raise AssertionError(error)

    services.sessions.add(Session(), RealtimeConfig(), services.gate.keys.changes)
    services.close_sessions()
    assert services.gate.readiness.is_closing
    assert ended == [True]


@pytest.mark.gen_test
async def test_services_that_are_closed_hold_no_file_of_the_data_folder_open(
    services: Services, tmp_path: Path
) -> None:
    await services.start()
    await services.gate.keys.find_key("sk-unknown")
    await services.memory.get_account_memory("a").put("name", "a value", seconds=60)
    await services.secrets.find_claims("ek_unknown")
    assert list_open_files(tmp_path)
    await services.close()
    assert list_open_files(tmp_path) == []


def list_open_files(folder: Path) -> list[str]:
    links = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the descriptor of this listing
            links.append(str(descriptor.readlink()))
    return [link for link in links if link.startswith(str(folder))]
