"""Keys and teams of conf, and durations in it."""

from __future__ import annotations

import pytest

from tests.config.support import Conf
from tornado_gate.config.model import KeyEntry, Secret, TeamEntry
from tornado_gate.types import Budget

KEY = "ci-key-0123456789"
HEAD = f"keys: [{{name: ci, key: {KEY}, "
ADDRESS = "must be an address or a network such as 192.0.2.7, 10.1.0.0/16 or fd00::/8, not"
AMOUNT = "must be 0 or more, not"


def test_what_a_key_may_be_given_is_read(conf: Conf) -> None:
    loaded = conf.load(
        f"{HEAD}role: member, team: research, tags: [nightly, ci], addresses: [10.1.0.0/16, '2001:db8::1'], "
        "requests_per_minute: 60, tokens_per_minute: 100000, concurrent_requests: 10, "
        "budget: {usd_per_day: 5, usd_per_month: 100.5, tokens_per_day: 1000000}}]\n"
        "teams: {research: {budget: {usd_per_month: 500}}, empty: {}}"
    )
    assert loaded.keys == (
        KeyEntry(
            name="ci",
            key=Secret(KEY),
            account="ci",
            team="research",
            tags=("nightly", "ci"),
            addresses=("10.1.0.0/16", "2001:db8::1"),
            requests_per_minute=60,
            tokens_per_minute=100_000,
            concurrent_requests=10,
            budget=Budget(usd_per_day=5.0, usd_per_month=100.5, tokens_per_day=1_000_000),
        ),
    )
    assert loaded.teams["research"] == TeamEntry(name="research", budget=Budget(usd_per_month=500.0))
    assert loaded.teams["empty"] == TeamEntry(name="empty")


FAULTS = [
    ("role: admin", "role", "must be 'member' or 'administrator', not 'admin'"),
    ("addresses: []", "addresses", "must not be empty; leave the key out for all addresses"),
    ("addresses: [nowhere]", "addresses.0", f"{ADDRESS} 'nowhere'"),
    ("addresses: [10.1.2.3/33]", "addresses.0", f"{ADDRESS} '10.1.2.3/33'"),
    (
        "addresses: [10.1.2.3/8]",
        "addresses.0",
        "'10.1.2.3/8' has bits behind the length of its network; write 10.0.0.0/8, or the address alone",
    ),
    ("addresses: [7]", "addresses.0", "must be a string, not an integer; put quotes around it"),
    ("tags: []", "tags", "must not be empty; leave the key out for no tags"),
    ("tags: [a b]", "tags.0", "a name must not contain spaces or control characters"),
    ("concurrent_requests: 0", "concurrent_requests", "must be 1 or more, not 0"),
    ("concurrent_requests: 1.5", "concurrent_requests", "must be an integer, not a number"),
    ("budget: 5", "budget", "must be a mapping such as {usd_per_day: 5}, not an integer"),
    ("budget: {usd_per_day: -1}", "budget.usd_per_day", f"{AMOUNT} -1"),
    ("budget: {usd_per_day: .nan}", "budget.usd_per_day", f"{AMOUNT} infinite or NaN"),
    ("budget: {usd_per_day: .inf}", "budget.usd_per_day", f"{AMOUNT} infinite or NaN"),
    ("budget: {tokens_per_day: 0}", "budget.tokens_per_day", "must be 1 or more, not 0"),
    ("budget: {usd_per_week: 1}", "budget.usd_per_week", "unknown key; did you mean"),
    ("concurent_requests: 1", "concurent_requests", "unknown key; did you mean 'concurrent_requests'?"),
]


@pytest.mark.parametrize(("text", "place", "message"), FAULTS)
def test_a_fault_of_a_key_is_named(conf: Conf, text: str, place: str, message: str) -> None:
    (fault,) = conf.report(f"{HEAD}{text}}}]")
    assert fault.startswith(f"FILE:1: keys.0.{place}: {message}")


def test_an_unknown_team_is_a_fault_when_there_are_teams(conf: Conf) -> None:
    text = f"{HEAD}team: reserch}}]\n"
    assert conf.report(text) == []
    (fault,) = conf.report(text + "teams: {research: {}}")
    assert fault == "FILE:1: keys.0.team: unknown team 'reserch'; did you mean 'research'?"
    assert conf.report(text.replace("reserch", "research") + "teams: {research: {}}") == []


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("5m", 300), ("1.5h", 5400), ("' 1d '", 86400), ("30", 30), ("0.5", 0.5)]
)
def test_seconds_are_numbers_or_durations(conf: Conf, text: str, seconds: float) -> None:
    assert conf.load(f"server: {{drain_seconds: {text}}}").server.drain_seconds == seconds


def test_a_duration_may_come_from_the_environment(conf: Conf) -> None:
    text = 'server: {drain_seconds: "${DRAIN}"}'
    assert conf.load(text, {"DRAIN": "2m"}).server.drain_seconds == 120
    (fault,) = conf.report(text, {"DRAIN": "2 months"})
    assert fault.endswith("must be a number of seconds, or a duration such as 5m, not the value from the environment")


@pytest.mark.parametrize("section", ["timeouts: {total: 10m}", "timeouts: {gap: 1d}"])
def test_timeouts_are_durations(conf: Conf, section: str) -> None:
    conf.load(f"plugins: {{p: true}}\nproviders: {{p: {{plugin: p, {section}}}}}")


def test_the_bounds_of_seconds_hold_for_durations(conf: Conf) -> None:
    (fault,) = conf.report("server: {drain_seconds: 2d}")
    assert fault.endswith("must be from 0 to 86400 seconds, not '2d'")
    assert conf.load("console: {session_seconds: 2w}").console.session_seconds == 14 * 86400
