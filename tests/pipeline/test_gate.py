"""What lives as long as the process: connections of accounts, requests that a reload must not disturb."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.gates import FakeProvider, make_config, make_gate
from tornado_gate.accounts import key_ring
from tornado_gate.config.model import KeyEntry, ProviderConfig, Secret
from tornado_gate.pipeline.gate import Gate
from tornado_gate.pipeline.snapshot_builder import build
from tornado_gate.types import replace


def reload(gate: Gate, **provider: object) -> None:
    """Put in force what conf would say after a change of the entry "fake"."""
    config = gate.snapshot.config
    entry = replace(config.providers["fake"], **provider)  # type: ignore[arg-type]
    changed = replace(config, providers={"fake": entry})
    gate.replace(build(changed, gate.host, gate.snapshot.number + 1))


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return make_gate(tmp_path, make_config(tmp_path), fake=FakeProvider())


@pytest.mark.gen_test
async def test_an_account_that_a_reload_leaves_alone_keeps_its_connections(gate: Gate) -> None:
    pool = gate.pools.get_pool(gate.snapshot.targets.providers["fake"])
    reload(gate)
    assert gate.pools.get_pool(gate.snapshot.targets.providers["fake"]) is pool


@pytest.mark.gen_test
async def test_keys_of_a_new_configuration_are_hashed_when_it_is_built_which_is_not_in_the_event_loop(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = KeyEntry(name="new", key=Secret("new-key-0123456789"), account="new")
    snapshot = build(replace(gate.snapshot.config, keys=(key,)), gate.host, 2)
    with monkeypatch.context() as patch:
        patch.setattr(key_ring, "digest_key", None)
        gate.replace(snapshot)
    found = await gate.keys.find_key(key.key)
    assert found is not None
    assert found.account == "new"


@pytest.mark.gen_test
async def test_connections_of_a_changed_account_close_when_their_last_request_has_ended(gate: Gate) -> None:
    old = gate.snapshot
    pool = gate.pools.get_pool(old.targets.providers["fake"])
    session = pool.session()
    with gate.requests.hold(old):
        reload(gate, api_key=Secret("another"))
        assert gate.pools.get_pool(gate.snapshot.targets.providers["fake"]) is not pool
        await asyncio.sleep(0)
        assert not session.closed
    await asyncio.gather(*gate.pools._closing)
    assert session.closed


@pytest.mark.gen_test
async def test_snapshots_that_nobody_uses_are_forgotten(gate: Gate) -> None:
    for number in range(20):
        reload(gate, api_key=Secret(f"key-{number}"))
        gate.pools.get_pool(gate.snapshot.targets.providers["fake"])
    await asyncio.gather(*gate.pools._closing)
    assert (len(gate.requests._retired), len(gate.pools._pools), len(gate.requests._users)) == (0, 1, 0)


def test_an_entry_without_secrets_in_its_repr(gate: Gate) -> None:
    entry = ProviderConfig(
        name="p", plugin="p", api_key=Secret("very-secret"), headers={"x-key": Secret("also-secret")}
    )
    assert "very-secret" not in repr(entry)
    assert "also-secret" not in repr(entry)
