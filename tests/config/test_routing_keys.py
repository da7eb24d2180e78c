"""The keys of conf about the choice of targets: their values, their defaults and their faults."""

from __future__ import annotations

import pytest

from tests.config.support import Conf
from tornado_gate.config.routing import Affinity, CircuitsConfig, HealthCheck, RetriesConfig, RetryBudget

HEAD = "plugins: {openai: true}\n"
FIRST, SECOND = "first-key-0123456789", "second-key-0123456789"


def provider(text: str) -> str:
    return f"{HEAD}providers: {{p: {{plugin: openai, {text}}}}}"


def model(text: str) -> str:
    return f"{HEAD}providers: {{p: {{plugin: openai}}}}\nmodels: {{m: {{provider: p, {text}}}}}"


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        (f"api_keys: [{FIRST}, '', {SECOND}]", (FIRST, SECOND)),
        (f"api_key: {FIRST}, api_keys: [{SECOND}]", (FIRST, SECOND)),
        (f"api_keys: [{FIRST}]", ()),
        (f"api_key: {FIRST}", ()),
    ],
)
def test_api_keys_stand_beside_or_instead_of_api_key(conf: Conf, text: str, keys: tuple[str, ...]) -> None:
    entry = conf.load(provider(text)).providers["p"]
    assert (entry.api_key, entry.api_keys) == (FIRST, keys)


def test_values_and_defaults(conf: Conf) -> None:
    plain = conf.load(model("operations: [chat]"))
    assert (plain.models["m"].strategy, plain.models["m"].affinity) == ("weighted", None)
    assert (plain.retries, plain.circuits) == (RetriesConfig(), CircuitsConfig())
    assert conf.load(model("affinity: true")).models["m"].affinity == Affinity()
    assert conf.load(model("affinity: false")).models["m"].affinity is None
    given = conf.load(model("strategy: cost, affinity: {from: [x-tenant], else: none, ttl: 10m}")).models["m"]
    assert (given.strategy, given.affinity) == ("cost", Affinity(sources=("x-tenant",), otherwise="none", ttl=600.0))
    rules = conf.load("retries: {same_target: 1, budget: {share: 0.5}}\ncircuits: {window: 30}")
    assert rules.retries == RetriesConfig(same_target=1, budget=RetryBudget(share=0.5))
    assert rules.circuits.window == 30
    checked = conf.load(provider("health_check: {path: /models, interval: 10s}")).providers["p"]
    assert checked.health_check == HealthCheck(path="/models", interval=10.0)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (model("strategy: fastest"), "models.m.strategy: must be 'weighted', 'latency', 'least_busy' or 'cost'"),
        (
            model("affinity: 5"),
            "models.m.affinity: must be true, false or a mapping such as {from: [prompt_cache_key]}",
        ),
        (model("affinity: {from: []}"), "models.m.affinity.from: must not be empty"),
        (model("affinity: {from: ['a b']}"), "models.m.affinity.from.0: must be a header, a member of the body"),
        (model("affinity: {otherwise: none}"), "models.m.affinity.otherwise: unknown key"),
        (provider("health_check: {}"), "providers.p.health_check: must have either path or model"),
        (provider("health_check: {path: /a, model: b}"), "providers.p.health_check: must have either path or model"),
        (provider("health_check: {path: models}"), "providers.p.health_check.path: must be a path below the base_url"),
        (
            provider(f"api_key: {FIRST}, api_keys: [{SECOND}, {FIRST}]"),
            "providers.p.api_keys.1: is the same key as api_key; remove one of them",
        ),
        ("retries: {same_target: 11}", "retries.same_target: must be from 0 to 10"),
        ("circuits: {window: 1}", "circuits.window: must be from 2 to 1000"),
    ],
)
def test_faults_are_named(conf: Conf, text: str, fault: str) -> None:
    (line,) = conf.report(text)
    assert fault in line
    assert FIRST not in line
