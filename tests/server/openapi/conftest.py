"""A gateway as its users start it, with conf/gate.yaml."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.gateway import Gateway, run_command

ROOT = Path(__file__).parents[3]
KEY = "examples-key-0123456789"


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    conf = (ROOT / "conf/gate.yaml").read_text(encoding="utf-8")
    started = Gateway.start(conf, tmp_path_factory.mktemp("gateway"), environment={"GATE_KEY": KEY})
    yield started
    started.stop()


@pytest.fixture(scope="session")
def client(gateway: Gateway) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=gateway.url, headers={"Authorization": f"Bearer {KEY}"}, timeout=60) as client:
        yield client


@pytest.fixture(scope="session")
def administrator_key(gateway: Gateway) -> str:
    """Made by the command, as docs/reference/admin.md says; conf/gate.yaml has none."""
    place = ["--conf", str(gateway.folder / "gate.yaml"), "--data-dir", str(gateway.folder / "var")]
    done = run_command("keys", "create", "--name", "ops", "--role", "administrator", *place)
    done.check_returncode()
    return done.stdout.strip()
