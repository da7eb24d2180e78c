"""A gateway as its users start it, with conf/gate.yaml."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.gateway import Gateway

ROOT = Path(__file__).parents[3]
KEY = "examples-key-0123456789"


@pytest.fixture(scope="session")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    conf = (ROOT / "conf/gate.yaml").read_text(encoding="utf-8")
    gateway = Gateway.start(conf, tmp_path_factory.mktemp("gateway"), environment={"GATE_KEY": KEY})
    with httpx.Client(base_url=gateway.url, headers={"Authorization": f"Bearer {KEY}"}, timeout=60) as client:
        yield client
    gateway.stop()
