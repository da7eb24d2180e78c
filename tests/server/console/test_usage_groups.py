"""Usage by tag and by end user: on the page, in its file and in the API's terms of permission."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Iterator

import pytest

from tests.support.admin_console import AdminConsole, serve_console


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdminConsole]:
    with serve_console(tmp_path_factory.mktemp("console")) as served:
        moment = time.time() - 5
        for number, (tags, user, who) in enumerate(
            [(("nightly", "batch"), "ann", "member"), (("nightly",), "ann", "member"), ((), "bob", "lead")]
        ):
            served.add_request(
                f"req-{number}", moment=moment, tags=tags, end_user=user, user=served.users[who].id, status=200,
                outcome="complete", error_code="", output_tokens=10, cost=None if number else 2_000_000_000,
            )  # fmt: skip
        yield served


def read_file(console: AdminConsole, group: str, who: str) -> dict[str, tuple[str, str, str]]:
    text = console.get(f"/console/usage.csv?range=24h&group={group}", who)
    return {
        row["name"]: (row["requests"], row["unpriced_requests"], row["known_cost_usd"])
        for row in csv.DictReader(io.StringIO(text))
    }


def test_files_have_the_groups_that_the_visitor_may_see(console: AdminConsole) -> None:
    assert read_file(console, "tag", "member") == {"nightly": ("2", "1", "2.0"), "batch": ("1", "0", "2.0")}
    assert read_file(console, "end_user", "member") == {"ann": ("2", "1", "2.0")}
    assert read_file(console, "end_user", "lead") == {"bob": ("1", "1", "0.0")}
    assert set(read_file(console, "end_user", "administrator")) == {"ann", "bob"}


def test_the_page_of_tags_has_the_total_of_all_requests(console: AdminConsole) -> None:
    page = console.get("/console/usage?range=24h&group=tag", "member")
    assert "A request with several tags counts for each of them" in page
    assert '<th scope="row">All</th><td class="number">2</td>' in page
    assert "tag=nightly" in page


def test_the_page_of_end_users_leads_to_the_usage_of_one(console: AdminConsole) -> None:
    page = console.get("/console/usage?range=24h&group=end_user")
    assert "end_user=ann" in page
    assert '<th scope="row">All</th><td class="number">3</td>' in page
    page = console.get("/console/usage?range=24h&group=model&end_user=ann")
    assert '<th scope="row">All</th><td class="number">2</td>' in page


def test_groups_that_cannot_be_combined_are_a_message(console: AdminConsole) -> None:
    response = console.send("GET", "/console/usage?range=24h&group=tag&end_user=ann")
    assert response.code == 400
    assert "cannot be combined" in response.body.decode()
