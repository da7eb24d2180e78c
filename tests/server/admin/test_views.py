"""What administrators see of the gateway's state, and that no secret is in it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from tests.support.gates import FakeProvider, make_config, make_services, model
from tests.tasks.test_store_contract import a_task
from tornado_gate import provider_impl
from tornado_gate.config.model import Config, ModelEntry, ModelTarget, ProviderConfig, Secret
from tornado_gate.config.routing import Affinity, HealthCheck
from tornado_gate.errors import InvalidField, UpstreamKeyRefused
from tornado_gate.hookspecs import Capabilities
from tornado_gate.server.admin import views
from tornado_gate.server.admin.target_views import FAILING_SECONDS
from tornado_gate.server.services import Services
from tornado_gate.types import replace

SECRET = "upstream-secret-0123456789"


class BrokenProvider(FakeProvider):
    """Its configuration raises."""

    @provider_impl
    def configure(self) -> Capabilities:
        raise RuntimeError("no such licence")


MODELS = {
    "m": ModelEntry(name="m", targets=(ModelTarget(provider="fake", model="big"),), facts={"display_name": "<b>M</b>"}),
    "mixed": model("mixed", "fake", "broken", fallback=("m",)),
    "dead": model("dead", "broken"),
    "idle": ModelEntry(name="idle", targets=(ModelTarget(provider="fake", weight=0),)),
    "all/*": model("all/*", "fake"),
}


def make_conf(tmp_path: Path) -> Config:
    config = make_config(tmp_path, MODELS, providers=("fake", "broken"))
    address = f"https://user:{SECRET}@up.example:8443/{SECRET}"
    fake = ProviderConfig(name="fake", plugin="fake", base_url=address, api_key=Secret(SECRET))
    off = ((("models", "gone"), "its plugin is off"), (("providers", "away"), "its plugin 'x' is off"))
    return replace(config, providers={**config.providers, "fake": fake}, inactive=off)


@pytest.fixture
def services(tmp_path: Path) -> Services:
    return make_services(tmp_path, make_conf(tmp_path), fake=FakeProvider(), broken=BrokenProvider())


@pytest.mark.gen_test
async def test_the_state_of_a_model_follows_from_its_targets(services: Services) -> None:
    found = {view.name: view for view in await views.describe_models(services)}
    assert {name: view.state for name, view in found.items()} == {
        "m": "available", "mixed": "available", "dead": "unavailable", "idle": "unavailable", "all/*": "available",
        "gone": "inactive",
    }  # fmt: skip
    assert found["mixed"].reason == "broken: configure raised RuntimeError"
    assert found["m"].targets[0].upstream_model == "big"
    assert found["m"].operations == ("chat",)
    assert found["all/*"].wildcard


@pytest.mark.gen_test
async def test_an_open_circuit_shows_at_its_model_and_its_provider(services: Services) -> None:
    gate = services.gate
    target, _ = gate.snapshot.targets.list_targets("m")[0]
    for account in ("a", "b"):
        circuit = gate.health.circuits.find_or_create(target, account)
        assert circuit is not None
        for _ in range(gate.snapshot.config.circuits.failures):
            circuit.record_failure(
                account, gate.health.circuits.clock(), gate.snapshot.config.circuits, "upstream_error"
            )
    shown = next(view for view in await views.describe_models(services) if view.name == "m")
    assert shown.state == "failing"
    assert shown.reason == "fake: its circuit for big is open (upstream_error)"
    provider = views.describe_providers(services)[0]
    assert provider.circuits == shown.targets[0].circuits
    assert provider.circuits[0].account == ""
    assert 9 < provider.circuits[0].retry_seconds <= 10


@pytest.mark.gen_test
async def test_a_model_fails_from_its_last_failed_request_until_one_succeeds(services: Services) -> None:
    gate = services.gate
    circuits, rules = gate.health.circuits, gate.snapshot.config.circuits
    target, _ = gate.snapshot.targets.list_targets("m")[0]
    now = circuits.clock()
    circuits.clock = lambda: now

    async def get_state() -> tuple[str, str]:
        return next((view.state, view.reason) for view in await views.describe_models(services) if view.name == "m")

    circuit = circuits.find_or_create(target, "a")
    assert circuit is not None
    circuit.record_failure("a", now, rules, "upstream_timeout")
    assert await get_state() == ("failing", "fake: the last request for big failed (upstream_timeout)")
    circuits.clock = lambda: now + FAILING_SECONDS
    assert (await get_state())[0] == "available", "nothing else is known for an hour"
    for _ in range(rules.failures):
        circuit.record_failure("a", now, rules, "upstream_timeout")
    assert circuit.blocked == "a"
    assert (await get_state())[0] == "failing", "its circuit is open for the only account that uses it"
    circuit.record_success("b")
    assert (await get_state())[0] == "available", "only the requests of one account fail"
    circuit.record_success("a")
    assert await get_state() == ("available", "")


@pytest.mark.gen_test
async def test_keys_show_their_number_and_their_rest(tmp_path: Path) -> None:
    config = make_config(
        tmp_path, {"m": model("m", "fake", strategy="latency", affinity=Affinity())}, providers=("fake",)
    )
    keys = (Secret(SECRET), Secret(SECRET + "2"))
    fake = ProviderConfig(
        name="fake", plugin="fake", api_key=keys[0], api_keys=keys, health_check=HealthCheck(path="/models")
    )
    services = make_services(tmp_path, replace(config, providers={"fake": fake}), fake=FakeProvider())
    gate = services.gate
    target, _ = gate.snapshot.targets.list_targets("m")[0]
    gate.health.keys.note_failure(
        target, UpstreamKeyRefused("no"), gate.health.circuits.clock(), gate.snapshot.config.circuits
    )
    (shown,) = await views.describe_models(services)
    assert (shown.state, shown.strategy) == ("available", "latency")
    assert shown.affinity == ("prompt_cache_key", "session_headers", "metadata.user_id", "prefix")
    first, second = shown.targets[0].keys
    assert (first.number, first.error_code, second.rests_seconds) == (1, "upstream_authentication", 0.0)
    assert 299 < first.rests_seconds <= 300
    gate.health.circuits.mark_down("fake")
    (provider,) = views.describe_providers(services)
    assert (provider.health, len(provider.keys)) == ("down", 2)
    (shown,) = await views.describe_models(services)
    assert (shown.state, shown.reason) == ("failing", "fake: its health checks fail")
    assert SECRET.encode() not in msgspec.json.encode([shown, provider])


@pytest.mark.gen_test
async def test_providers_show_their_host_and_no_secret(services: Services) -> None:
    found = {view.name: view for view in views.describe_providers(services)}
    assert found["fake"].origin == "https://up.example:8443"
    assert found["fake"].has_api_key
    assert found["fake"].models == ("m", "mixed", "idle", "all/*")
    assert (found["broken"].state, found["away"].state) == ("failed", "off")
    shown = msgspec.json.encode([await views.describe_models(services), list(found.values())])
    assert SECRET.encode() not in shown


@pytest.mark.gen_test
async def test_plugins_show_their_state_and_their_last_failure(services: Services) -> None:
    found = {view.name: view for view in await views.describe_plugins(services)}
    assert found["broken"].state == "failed"
    assert found["broken"].error == "configure raised RuntimeError"
    assert found["broken"].failed_at is not None
    assert found["fake"].state == "on"
    assert found["fake"].hooks["provider"] == (
        "call_upstream", "configure", "translate_request", "translate_response",
    )  # fmt: skip
    assert found["plain"].operations == ("chat", "models")


@pytest.mark.gen_test
async def test_tasks_of_all_accounts_are_filtered_and_show_no_prompt(services: Services) -> None:
    store = services.tasks.engine.store
    await store.open()
    made = [await store.create(a_task(account=name), None) for name in ("a", "b", "a")]
    page = await views.list_tasks(services, limit=2)
    assert [task.id for task in page.tasks] == [made[2].id, made[1].id]
    rest = await views.list_tasks(services, after=page.next)
    assert [task.id for task in rest.tasks] == [made[0].id]
    assert rest.next == ""
    assert [task.account for task in (await views.list_tasks(services, account="b")).tasks] == ["b"]
    assert (await views.list_tasks(services, status="failed")).tasks == ()
    assert b"a cat" not in msgspec.json.encode(page)
    with pytest.raises(InvalidField):
        await views.list_tasks(services, after="video_x")


@pytest.mark.gen_test
async def test_many_models_are_described_in_several_turns_of_the_event_loop(tmp_path: Path) -> None:
    names = [f"m{number}" for number in range(2 * views.MODELS_AT_ONCE)]
    services = make_services(
        tmp_path, make_config(tmp_path, {name: model(name, "fake") for name in names}), fake=FakeProvider()
    )
    describing = asyncio.ensure_future(views.describe_models(services))
    for _ in range(2):
        await asyncio.sleep(0)
        assert not describing.done()
    assert [view.name for view in await describing] == names
