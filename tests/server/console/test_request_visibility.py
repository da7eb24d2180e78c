"""Requests for every member: who sees which rows, in the list, in files and by id; what the list and the files show."""

from __future__ import annotations

import csv
import io
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.admin_console import AdminConsole, serve_console
from tornado_gate.server.console import request_pages, request_query

NOW = time.time()


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdminConsole]:
    with serve_console(tmp_path_factory.mktemp("console")) as served:
        served.add_person("stranger")
        add_rows(served)
        yield served


def add_rows(console: AdminConsole) -> None:
    """`mine` of the member in the lead's team, `private` of the member without a team, `theirs` of somebody else."""
    member, stranger = console.users["member"].id, console.users["stranger"].id
    console.add_request(
        "mine", moment=NOW - 30, error_message="The prompt is too long.", error_detail="The upstream said: sk-org-7",
        tags=("nightly",), end_user="ann", input_tokens=1200, output_tokens=50, first_byte_ms=500.0, total_ms=1500.0,
        body="a body",
    )  # fmt: skip
    console.add_request("private", moment=NOW - 20, user=member, team="", status=200, outcome="complete", error_code="")
    console.add_request("theirs", moment=NOW - 10, user=stranger, team="", key_name="=cmd", error_message="Other text")
    for user in (member, stranger):
        console.add_request("shared", moment=NOW - 5, user=user, team="", model="shared-model")


def list_ids(page: str) -> list[str]:
    return re.findall(r'<th scope="row"><a href="/console/requests/([\w-]+)\?row=', page)


VISIBLE = {
    "member": {"": ["shared", "private", "mine"]},
    "stranger": {"": ["shared", "theirs"]},
    "lead": {"": [], "whose=TEAM": ["mine"], "whose=all": [], "whose=OTHER": []},
    "administrator": {
        "show=all": ["shared", "shared", "theirs", "private", "mine"],
        "": ["shared", "shared", "theirs", "mine"],
    },
}


def test_each_role_sees_its_rows_in_the_list_and_in_files(console: AdminConsole) -> None:
    for who, views in VISIBLE.items():
        for query, expected in views.items():
            written = query.replace("TEAM", console.team.id).replace("OTHER", console.other_team.id)
            assert list_ids(console.get(f"/console/requests?{written}", who)) == expected, (who, query)
            lines = console.get(f"/console/requests.jsonl?{written}", who).splitlines()
            assert [json.loads(line)["request_id"] for line in lines] == expected, (who, query)


def test_nobody_reads_a_request_of_somebody_else_by_its_id(console: AdminConsole) -> None:
    for who, request_id, status in [
        ("member", "mine", 200), ("member", "theirs", 404), ("stranger", "mine", 404), ("lead", "mine", 200),
        ("lead", "private", 404), ("lead", "theirs", 404), ("administrator", "theirs", 200),
    ]:  # fmt: skip
        assert console.send("GET", f"/console/requests/{request_id}", who).code == status, (who, request_id)
    assert console.send("GET", "/console/requests/mine/explain", "member").code == 403
    page = console.get("/console/requests/shared", "member")
    assert console.users["stranger"].email not in page


def test_members_cannot_widen_the_list_by_its_address(console: AdminConsole) -> None:
    stranger = console.users["stranger"].id
    for query in (
        f"user={stranger}",
        f"team={console.other_team.id}",
        "whose=all",
        "key=%3Dcmd",
        "text=Other",
        "id=theirs",
    ):
        assert "theirs" not in list_ids(console.get(f"/console/requests?{query}", "member")), query


def test_only_administrators_read_details_of_the_upstream_and_bodies(console: AdminConsole) -> None:
    for who, is_shown in (("member", False), ("lead", False), ("administrator", True)):
        page = console.get("/console/requests/mine", who)
        assert "The prompt is too long." in page
        assert ("sk-org-7" in page) == is_shown
        assert ("a body" in page) == is_shown
        text = console.get(f"/console/requests.csv?text=prompt&whose={console.team.id if who == 'lead' else ''}", who)
        assert "The prompt is too long." in text
        assert ("sk-org-7" in text) == is_shown
        assert ("a body" in text) == is_shown


@pytest.mark.parametrize(
    "query",
    [
        "status=504&tag=nightly",
        "text=TOO+LONG",
        "end_user=ann",
        "key=laptop&tag=nightly",
        "error_code=upstream_timeout&tag=nightly",
    ],
)
def test_filters_find_the_request(console: AdminConsole, query: str) -> None:
    assert list_ids(console.get(f"/console/requests?{query}", "member")) == ["mine"]


def test_a_range_of_time_is_exact(console: AdminConsole) -> None:
    start = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(NOW - 35))
    end = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(NOW - 25))
    assert list_ids(console.get(f"/console/requests?from={start}&to={end}", "member")) == ["mine"]
    assert "Enter a time" in console.get("/console/requests?from=yesterday", "member")
    assert "Enter an HTTP status" in console.get("/console/requests?status=9x9", "member")


def test_a_row_shows_tokens_speed_and_the_error(console: AdminConsole) -> None:
    page = console.get("/console/requests?tag=nightly", "member")
    for shown in ("1,200 in, 50 out", ">50.0 per second<", "first token 500 ms", "The prompt is too long.", "for ann"):
        assert shown in page, shown


def test_a_csv_file_has_headings_and_no_formula(console: AdminConsole) -> None:
    response = console.send("GET", "/console/requests.csv?show=all", "stranger")
    assert response.headers["Content-Type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(response.body.decode())))
    assert [row["request_id"] for row in rows] == ["shared", "theirs"]
    assert rows[1]["key_name"] == "'=cmd"


def test_a_file_is_sent_in_pages_up_to_its_bound(console: AdminConsole, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_pages, "EXPORT_PAGE", 2)
    lines = console.get("/console/requests.jsonl?show=all").splitlines()
    assert len({json.loads(line)["id"] for line in lines}) == len(lines) == 5
    monkeypatch.setattr(request_pages, "EXPORT_ROWS", 3)
    assert len(console.get("/console/requests.jsonl?show=all").splitlines()) == 3


def test_live_updates_are_bounded_in_time(console: AdminConsole) -> None:
    page = console.get("/console/requests?live=1", "member")
    assert 'id="list" data-refresh="5"' in page
    assert "Stop live updates" in page
    old = int(time.time()) - request_query.LIVE_SECONDS - 1
    assert "data-refresh" not in console.get(f"/console/requests?live={old}", "member")


def test_members_have_the_page_in_their_navigation(console: AdminConsole) -> None:
    assert 'href="/console/requests"' in console.get("/console/", "member")


def test_advice_about_the_configuration_is_for_administrators(tmp_path: Path) -> None:
    with serve_console(tmp_path) as console:
        console.add_request("unreachable", user=console.users["disabled"].id, error_code="upstream_unreachable")
        console.add_request("unreachable-2", user=console.users["lead"].id, team="", error_code="upstream_unreachable")
        assert "Check base_url" in console.get("/console/requests/unreachable")
        assert "Check base_url" not in console.get("/console/requests/unreachable-2", "lead")
