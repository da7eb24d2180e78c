"""The usage page: whose requests it shows, its chart, its table and its file."""

from __future__ import annotations

import csv
import io
import re
import time
from collections import Counter
from typing import Any
from urllib.parse import quote

import pytest

from tests.ledger.rows import make_stored_row
from tests.server.console.members.site import Visit, Visitor
from tests.support.xss import find_markup
from tornado_gate.accounts.keys import KeyStore
from tornado_gate.accounts.people import Actor
from tornado_gate.ledger.writing import StoredRow, write_rows
from tornado_gate.server.console.usage_chart import choose_colours, draw_chart, format_short, round_up
from tornado_gate.server.console.usage_pages import MOST_GROUPS
from tornado_gate.server.console.usage_query import parse_view
from tornado_gate.server.services import Services
from tornado_gate.types.value import replace

pytestmark = pytest.mark.gen_test(timeout=60)

COMMAND = Actor(id="command", name="command", role="administrator")


def make_row(age: float, **given: Any) -> StoredRow:
    """A row of the ledger for a request that ended `age` seconds ago."""
    usual = {"key": "", "provider": "", "input_tokens": 10, "output_tokens": 5, "cost": 2_000_000_000}
    return make_stored_row(time.time() - age, **{**usual, **given})


def add_rows(services: Services, *rows: tuple[Any, ...]) -> None:
    write_rows(services.database, rows, may_repeat=False)


async def sign_up_all(visit: Visit, services: Services) -> tuple[Visitor, Visitor, dict[str, str]]:
    """An administrator, a member, and the ids of both by their first names."""
    ada, bob = visit(), visit("192.0.2.2")
    await ada.sign_up("ada@example.org")
    await bob.sign_up("bob@example.org")
    return ada, bob, {user.email.partition("@")[0]: user.id for user in services.accounts.users.list_page()[0]}


async def test_a_member_sees_only_own_requests(visit: Visit, services: Services) -> None:
    ada, bob, ids = await sign_up_all(visit, services)
    assert "No requests in this time" in (await bob.get("/console/usage")).text
    add_rows(
        services,
        make_row(60, user=ids["bob"], model="his"),
        make_row(61, user=ids["ada"], model="hers"),
        make_row(62, model="of-nobody", cost=None),
    )
    page = await bob.get("/console/usage?whose=all&user=" + ids["ada"])
    assert "his" in page.text
    assert "hers" not in page.text
    assert "$2.00" in page.text
    page = await ada.get("/console/usage")
    assert all(name in page.text for name in ("his", "hers", "of-nobody"))
    assert "and 1 request without a price" in page.text
    page = await ada.get("/console/usage?whose=me")
    assert "hers" in page.text
    assert "of-nobody" not in page.text
    page = await ada.get("/console/usage?group=user")
    assert "bob@example.org" in page.text
    assert "no user" in page.text
    page = await ada.get("/console/usage?group=key&user=" + ids["bob"])
    assert "bob@example.org" in page.text  # the filter, which can be removed
    assert "hers" not in page.text


async def test_times_are_shown_by_model_unless_a_filter_has_no_sample(visit: Visit, services: Services) -> None:
    ada, _, ids = await sign_up_all(visit, services)
    add_rows(
        services,
        *(
            make_row(60 + index, user=ids["ada"], model="fast", first_byte_ms=120.0, total_ms=640.0)
            for index in range(20)
        ),
        make_row(61, user=ids["bob"], model="of-bob", first_byte_ms=1.0, total_ms=2.0),
    )
    page = await ada.get("/console/usage?range=24h&whose=me")
    assert "fast 20 120 ms 120 ms 640 ms 640 ms" in page.text
    assert page.html.count("<polyline ") in (4, 8)  # one bar, or two if an hour begins
    assert "<title>fast, median</title>" in page.html
    assert "of-bob" not in page.html
    assert "polyline" not in (await ada.get("/console/usage?range=24h&status=200")).html


async def test_an_administrator_of_a_team_sees_its_usage_and_a_member_of_it_does_not(
    visit: Visit, services: Services
) -> None:
    _, bob, ids = await sign_up_all(visit, services)
    organisation = services.accounts.organisations.create("Works", COMMAND)
    team = services.accounts.teams.create(organisation.id, "Blue", COMMAND)
    add_rows(services, make_row(60, user=ids["ada"], team=team.id, model="team-model"))
    services.accounts.members.set_role(team.id, ids["bob"], "member", COMMAND)
    assert "team-model" not in (await bob.get(f"/console/usage?whose={team.id}")).text
    services.accounts.members.set_role(team.id, ids["bob"], "administrator", COMMAND)
    page = await bob.get(f"/console/usage?whose={team.id}&group=user")
    assert "ada@example.org" in page.text
    assert "team-model" in (await bob.get(f"/console/usage?whose={team.id}")).text


async def test_a_filter_names_only_keys_and_users_that_the_visitor_may_see(visit: Visit, services: Services) -> None:
    ada, bob, ids = await sign_up_all(visit, services)
    carol = visit("192.0.2.3")
    await carol.sign_up("carol@example.org")
    ids["carol"] = next(user.id for user in services.accounts.users.list_page()[0] if user.email.startswith("carol"))
    accounts, store = services.accounts, KeyStore(services.database)
    team = accounts.teams.create(accounts.organisations.create("Ltd", COMMAND).id, "physics", COMMAND)
    accounts.members.set_role(team.id, ids["bob"], "administrator", COMMAND)
    accounts.members.set_role(team.id, ids["ada"], "member", COMMAND)
    keys = {
        "of-ada-alone": store.create("of-ada-alone", user=ids["ada"])[1].id,
        "of-the-team": store.create("of-the-team", user=ids["ada"], team=team.id)[1].id,
        "of-bob": store.create("of-bob", user=ids["bob"])[1].id,
        "ada@example.org": ids["ada"],
        "carol@example.org": ids["carol"],
        "physics": team.id,
    }
    seen = [
        ("bob", bob, "me", {"of-bob"}),
        ("bob for the team", bob, team.id, {"of-the-team", "of-bob", "ada@example.org"}),
        ("the administrator", ada, "all", set(keys)),
        ("carol", carol, "me", set()),
    ]
    for who, visitor, whose, expected in seen:
        shown = set()
        for name, identity in keys.items():
            for what in ("key", "user", "team"):
                page = await visitor.get(f"/console/usage?whose={whose}&{what}={identity}")
                if f'title="Show all">{what} {name} ' in page.html:
                    shown.add(name)
        assert shown == expected, who


async def test_the_form_filters_by_status_and_tag(visit: Visit, services: Services) -> None:
    ada, _, ids = await sign_up_all(visit, services)
    add_rows(
        services,
        make_row(60, user=ids["ada"], model="good", tags='["nightly","ci"]'),
        make_row(61, user=ids["ada"], model="limited", status=429, outcome="refused", tags='["ci"]'),
        make_row(62, user=ids["ada"], model="plain"),
    )
    models = {"good", "limited", "plain"}
    expected = {
        "status=429": {"limited"}, "status=200": {"good", "plain"}, "tag=ci": {"good", "limited"}, "tag=nightly": {"good"},
        "tag=ci&status=200": {"good"}, "tag=CI": set(), "status=abc": models, "status=99": models, "status=٤٢٩": models,
        "whose=me&tag=ci&status=429": {"limited"}, "range=24h&tag=ci&group=key&model=good": {"good"},
    }  # fmt: skip
    for query, shown in expected.items():
        page = await ada.get("/console/usage?" + quote(query, safe="=&"))
        assert {name for name in models if f">{name}<" in page.html or f"model {name} " in page.text} == shown, query
        file = await ada.get("/console/usage.csv?" + quote(query, safe="=&"))
        assert file.status == 200, query
    page = await ada.get("/console/usage?status=429&tag=ci")
    assert page.find('name="status" value="([^"]*)"') == "429"
    assert page.find('name="tag" value="([^"]*)"') == "ci"
    assert page.html.count('name="tag"') == page.html.count('name="status"') == 1
    assert "status 429" in page.text
    assert "tag ci" in page.text


async def test_the_chart_has_a_bar_for_each_time_and_an_explanation(visit: Visit, services: Services) -> None:
    ada, _, ids = await sign_up_all(visit, services)
    day = 86400
    add_rows(
        services,
        *(
            make_row(age * day + index, user=ids["ada"], model=name)
            for age in (0, 1, 2)
            for index, name in enumerate(("a", "b"))
        ),
        make_row(1, user=ids["ada"], model="a", outcome="failed", status=502),
    )
    page = await ada.get("/console/usage?range=7d")
    colours = choose_colours(["a", "b"])
    assert colours["a"] != colours["b"]
    assert [page.html.count(f'<rect class="{colours[name]}" x=') for name in ("a", "b")] == [3, 3]
    assert 'role="img" aria-labelledby="chart-title chart-summary"' in page.html
    assert "Requests by model and day" in page.find('<title id="chart-title">([^<]+)')
    assert re.search(r"<title>\w+ \d+: b, 1</title>", page.html)
    page = await ada.get("/console/usage?range=24h&metric=errors")
    assert page.html.count(f'<rect class="{colours["a"]}" x=') == 1
    assert "Errors by model and hour" in page.text
    for metric in ("tokens", "cost"):
        assert (await ada.get(f"/console/usage?range=30d&metric={metric}&group=status")).status == 200
    assert find_markup(page.html) == []


@pytest.mark.parametrize("group", ["key", "user"])
async def test_the_chart_shows_the_largest_of_many_groups(visit: Visit, services: Services, group: str) -> None:
    ada, _, _ = await sign_up_all(visit, services)
    many = [make_row(number, **{group: f"g{number}"}) for number in range(MOST_GROUPS)]
    largest = [make_row(number / 100, **{group: "largest"}) for number in range(7)]
    add_rows(services, *many, *largest, make_row(0, **{group: ""}), make_row(1, **{group: ""}))
    page = await ada.get(f"/console/usage?range=7d&group={group}&whose=all")
    assert page.status == 200
    titles: Counter[str] = Counter()
    for name, number in re.findall(r"<title>\w+ \d+: ([^,<]+), (\d+)</title>", page.html):
        titles[name] += int(number)
    assert titles["largest"] == 7
    assert sum(titles.values()) == MOST_GROUPS + len(largest) + 2


async def test_the_range_may_be_typed(visit: Visit, services: Services) -> None:
    ada, _, ids = await sign_up_all(visit, services)
    add_rows(services, make_row(0, user=ids["ada"], model="now"))
    page = await ada.get("/console/usage?range=7d&from=2020-01-01&to=2020-01-31")
    assert "No requests in this time" in page.text
    assert page.find(r'name="from"[^>]*value="([^"]+)"') == "2020-01-01"
    for first, last in (
        ("2020-01-31", "2020-01-01"),
        ("x", ""),
        ("0001-01-01", "9999-12-31"),
        ("2020-02-30", "2020-03-01"),
    ):
        page = await ada.get(f"/console/usage?range=custom&from={first}&to={last}")
        assert page.status == 200
        assert 'role="alert"' in page.html
        assert 'aria-invalid="true"' in page.html


async def test_the_file_has_no_formulas(visit: Visit, services: Services) -> None:
    ada, bob, ids = await sign_up_all(visit, services)
    names = ("=cmd|' /C calc'!A0", "+1", "-1", "@SUM(1)", 'plain, "quoted"')
    add_rows(
        services,
        *(make_row(index, user=ids["ada"], model=name) for index, name in enumerate(names)),
        make_row(9, user=ids["bob"], model="his"),
    )
    page = await ada.get("/console/usage.csv?group=model&whose=me")
    assert page.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert re.fullmatch(r'attachment; filename="usage-[\d-]+-by-model\.csv"', page.headers["Content-Disposition"])
    rows = list(csv.reader(io.StringIO(page.html)))
    assert rows[0][:4] == ["day", "model", "name", "requests"]
    assert {row[1] for row in rows[1:]} == {"'" + name if name[0] in "=+-@" else name for name in names}
    assert not any(cell.startswith(("=", "+", "-", "@")) for row in rows for cell in row)
    rows = list(csv.reader(io.StringIO((await bob.get("/console/usage.csv?whose=all")).html)))
    assert [row[1] for row in rows[1:]] == ["his"]


async def test_many_groups_are_cut_in_the_table_and_summed_in_the_chart(visit: Visit, services: Services) -> None:
    ada, _, _ = await sign_up_all(visit, services)
    add_rows(
        services,
        *(make_row(1 + n / 1000, model=f"m{n % 300}") for n in range(900)),
        *(make_row(2, model="big") for _ in range(50)),
    )
    page = await ada.get("/console/usage")
    assert "101 more are in the file" in page.text
    assert "all others" in page.text
    assert page.find(r"<tfoot><tr><th[^>]*>All</th><td[^>]*>([^<]+)<") == "950"
    assert re.search(r"<title>\w+ \d+: big, 50</title>", page.html)
    assert re.search(r"<title>\w+ \d+: all others, 882</title>", page.html)
    rows = list(csv.reader(io.StringIO((await ada.get("/console/usage.csv")).html)))
    assert len(rows) == 302


def test_the_geometry_of_a_chart() -> None:
    chart = draw_chart(
        [("a", [1.0, 0.0]), ("b", [3.0, 4.0])],
        start=0,
        bar_seconds=86400,
        title="t",
        summary="s",
        format_value=format_short,
    )
    assert [mark.text for mark in chart.lines] == ["0", "1", "2", "3", "4"]
    assert len(chart.segments) == 3
    first, second, other = chart.segments
    assert first.y + first.height == pytest.approx(chart.height)
    assert second.y + second.height == pytest.approx(first.y)
    assert other.y == second.y
    assert [mark.text for mark in chart.labels] == ["Jan 1", "Jan 2"]
    assert [mark.place for mark in chart.labels] == [25, 75]
    values = {0: 0, 0.3: 0.32, 1: 1, 3: 3.2, 9: 10, 21: 24, 41: 48, 81: 100}
    assert [round_up(value) for value in values] == pytest.approx(list(values.values()))
    assert [format_short(value) for value in (0, 950, 1200, 3e6)] == ["0", "950", "1.2 k", "3 M"]


def test_a_name_has_the_same_colour_in_every_chart() -> None:
    names = ["gpt", "claude", "gemini", "mistral"]
    assert choose_colours(["mistral", "gpt"], names) == {"gpt": "c1", "mistral": "c4"}
    assert choose_colours(["claude", "mistral", "unknown"], names)["mistral"] == "c4"
    crowded = [f"model_{number}" for number in range(9)]
    first = choose_colours(crowded[2:9], crowded)
    second = choose_colours(crowded[7:], crowded, first)
    assert second == {name: first[name] for name in crowded[7:]}, "two charts of one page"
    assert choose_colours(["new", "model_8"], crowded, first)["new"] not in {first["model_8"]}
    many = choose_colours([f"key_{number}" for number in range(7)])
    assert len(set(many.values())) == 7
    assert choose_colours(["key_0"])["key_0"] == choose_colours(["key_0", "zzz"])["key_0"]


async def test_an_address_cannot_widen_the_view(services: Services) -> None:
    services.accounts.sign_up.create_administrator("ada@example.org", COMMAND)
    user = services.accounts.users.list_page()[0][0]
    member = replace(user, role="member")
    given = {"whose": "all", "group": "provider", "user": "user_x", "team": "team_x", "provider": "p", "metric": "x"}
    view = parse_view(lambda name: given.get(name, ""), member, [])
    assert (view.whose, view.group, dict(view.filters), view.metric) == ("me", "model", {}, "requests")
    assert view.make_query(member, "day").user == member.id
