"""The administrators' pages over HTTP: what they show, what their forms change, and what they refuse."""

from __future__ import annotations

import csv
import html
import io
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import insert

from tests.support.admin_console import CONF, TOKEN, AdminConsole, serve_console
from tests.support.xss import CORPUS, find_markup, read_texts
from tornado_gate.accounts.accounts import Accounts
from tornado_gate.accounts.audit import list_events
from tornado_gate.accounts.errors import AccountError
from tornado_gate.accounts.keys import KeyStore
from tornado_gate.config.model import ConsoleConfig, ProviderConfig
from tornado_gate.config.stored import StoredConf
from tornado_gate.database import tables
from tornado_gate.server import configuration_changes
from tornado_gate.server.console import admin_pages, plugin_pages, words
from tornado_gate.server.console.audit_words import describe_detail
from tornado_gate.server.console.team_pages import describe_role
from tornado_gate.types import Target
from tornado_gate.types.value import replace


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdminConsole]:
    with serve_console(tmp_path_factory.mktemp("console")) as served:
        yield served


@pytest.fixture
def accounts(console: AdminConsole) -> Accounts:
    return console.services.accounts


def read_hidden(page: str, name: str) -> str:
    found = re.search(rf'name="{name}" value="([^"]*)"', page)
    assert found is not None, page
    return html.unescape(found[1])


def last_events(console: AdminConsole, action: str) -> list[tuple[str, str, str]]:
    """(who, object, address) of events, newest first."""
    events = list_events(console.services.database, action=action)
    return [(event.actor_name, event.object, event.address) for event in events]


# Models and providers


def test_models_are_shown_with_targets_and_found_by_name(console: AdminConsole) -> None:
    page = read_texts(console.get("/console/models"))
    for text in ("local-chat", "A demonstration", "weight 3", "drained", "available", "all processes of this machine"):
        assert text in page, text
    assert "smart" not in console.get("/console/models?search=demonstration")
    assert "No model matches" in console.get("/console/models?search=%3Cnone%3E")
    assert "No model matches" in console.get("/console/models?state=inactive")


def test_a_circuit_is_explained_in_words(console: AdminConsole) -> None:
    health = console.services.gate.health.circuits
    target = Target(provider="local", plugin="local", model="smart", upstream_model="local-embed")
    circuit = health.find_or_create(target, "acc")
    assert circuit is not None
    for _ in range(5):
        circuit.record_failure(
            "acc", health.clock(), console.services.gate.snapshot.config.circuits, "upstream_timeout"
        )
    page = read_texts(console.get("/console/models"))
    assert "For the account acc only: No requests are sent. Open since 0 s. Next try in 10 s." in page
    assert "Last failure 0 s ago: The provider sent nothing within the time limit." in page
    assert "local-embed" in console.get("/console/providers")


def test_a_model_whose_requests_fail_is_neither_healthy_nor_available(console: AdminConsole) -> None:
    health = console.services.gate.health.circuits
    target = Target(provider="local", plugin="local", model="local-chat", upstream_model="local-chat")
    circuit = health.find_or_create(target, "acc")
    assert circuit is not None
    circuit.record_failure("acc", health.clock(), console.services.gate.snapshot.config.circuits, "upstream_timeout")
    home = console.get("/console/")
    assert "Some models do not work now" in home
    assert "1 of 3 models are available" in home
    assert "local-chat" in console.get("/console/models?state=failing")
    assert "No model matches" in console.get("/console/models?state=unavailable")
    circuit.record_success("acc")
    assert "No model matches" in console.get("/console/models?state=failing")
    assert "3 of 3 models are available" in console.get("/console/")


def test_providers_never_show_their_key(console: AdminConsole) -> None:
    console.add_request("of-provider")
    page = console.get("/console/providers")
    assert "API key set<" in page
    assert "1 request, 1 error (100.0%)" in page
    assert "sk-secret" not in page
    assert "provider</" not in page.partition("API key set")[2][:60]
    assert 'href="/console/usage?provider=local"' in page


def test_a_rejected_configuration_is_on_every_page_of_an_administrator_only(console: AdminConsole) -> None:
    state = console.services.configuration
    state.reject(["gate.yaml:3: sever: unknown key <x>", "gate.yaml:9: models: is missing"])
    assert state.rejected is not None
    try:
        for path in ("/console/", "/console/usage", "/console/plugins", "/console/users"):
            page = console.get(path)
            assert f"not used since {words.render_time(state.rejected.since)}: it has 2 faults" in page, path
            assert "gate.yaml:3: sever: unknown key &lt;x&gt;" in page, path
            assert "gate.yaml:9: models: is missing" in page, path
        assert "it has 2 faults" in console.send("GET", "/console/users/nobody").body.decode()
        assert "gate.yaml" not in console.get("/console/", "member")
    finally:
        state.apply()
    assert "it has 2 faults" not in console.get("/console/")


def test_a_rejected_version_of_the_database_says_how_to_push_another(
    console: AdminConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no file that somebody could correct."""
    gate, state = console.services.gate, console.services.configuration
    stored = StoredConf.make("postgresql://gate.example/gate", 12)
    monkeypatch.setattr(gate, "snapshot", replace(gate.snapshot, config=replace(gate.snapshot.config, path=stored)))
    state.reject([f"{StoredConf.make('', 13)}:9: models: the variable A_KEY is not set on this machine"])
    try:
        page = read_texts(console.get("/console/users"))
        assert "The newest version of the configuration is not used since" in page
        assert "configuration version 13:9: models: the variable A_KEY is not set on this machine" in page
        assert "Push a corrected version:" in page
        assert "tornado-gate conf push FILE" in page
        assert "the file" not in page
        assert "configuration version 13" not in console.get("/console/", "member")
    finally:
        state.apply()


# Plugins


def test_a_plugin_is_switched_by_a_reviewed_change(console: AdminConsole) -> None:
    page = console.get("/console/plugins")
    assert "cascade" in page
    assert "Operations by wire format" in page
    assert '<td data-label="format-anthropic">translated</td>' in page
    review = console.post("/console/plugins/cascade/switch", on="true")
    page = review.body.decode()
    assert "+  cascade: true" in read_texts(page)
    assert "sk-secret" not in page
    assert console.file.read_text(encoding="utf-8") == CONF
    digest = read_hidden(page, "digest")
    applied = console.post("/console/plugins/cascade/switch", on="true", digest=digest)
    assert (applied.code, applied.headers["Location"]) == (303, "/console/plugins")
    switched = CONF.replace("# the demonstration\n", "# the demonstration\n  cascade: true\n")
    assert console.file.read_text(encoding="utf-8") == switched
    assert last_events(console, "plugin.switch")[0] == ("root@example.org", "cascade", "127.0.0.1")
    again = console.post("/console/plugins/kling/switch", on="true", digest=digest)
    assert again.code == 409
    assert "changed since you reviewed" in again.body.decode()
    assert console.file.read_text(encoding="utf-8") == switched
    console.file.write_text(CONF, encoding="utf-8")


def test_a_change_with_faults_cannot_be_applied(console: AdminConsole) -> None:
    console.file.write_text(CONF + "defaults: {images: no-such-model}\n", encoding="utf-8")
    page = console.post("/console/plugins/cascade/switch", on="true").body.decode()
    assert "no-such-model" in read_texts(page)
    assert ">Apply<" not in page
    console.file.write_text(CONF, encoding="utf-8")


def test_a_plugin_whose_key_is_not_set_has_a_next_step(console: AdminConsole) -> None:
    text = console.file.read_text(encoding="utf-8")
    vendor = "  kling: {plugin: kling, api_key: '${KLING_API_KEY_OF_NOBODY}'}\nmodels:\n"
    console.file.write_text(text.replace("models:\n", vendor), encoding="utf-8")
    try:
        page = console.post("/console/plugins/kling/switch", on="true").body.decode()
    finally:
        console.file.write_text(text, encoding="utf-8")
    assert "KLING_API_KEY_OF_NOBODY is not set" in page
    assert "Next step: choose the vendor at" in page
    assert 'href="/console/providers/new"' in page
    assert ">Apply<" not in page


@pytest.mark.parametrize(
    ("path", "form", "status"),
    [
        ("/console/plugins/no-such-plugin/switch", {"on": "true"}, 404),
        ("/console/plugins/%3Cb%3E/switch", {"on": "true"}, 404),
        ("/console/plugins/local/switch", {"on": "maybe"}, 400),
        ("/console/plugins/local/switch", {}, 400),
        ("/console/plugins/local/switch", {"on": "false", "digest": "x"}, 409),
    ],
)
def test_a_wrong_switch_is_refused(console: AdminConsole, path: str, form: dict[str, str], status: int) -> None:
    assert console.post(path, **form).code == status
    assert console.file.read_text(encoding="utf-8") == CONF


def test_a_check_that_hangs_is_given_up(console: AdminConsole, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()
    monkeypatch.setattr(configuration_changes, "CHECK_SECONDS", 0.01)
    monkeypatch.setattr(plugin_pages, "review_plugin", lambda *_, **__: ended.wait(60))
    response = console.post("/console/plugins/cascade/switch", on="true")
    ended.set()
    assert response.code == 503
    assert "a plugin may hang" in read_texts(response.body.decode())


# Users and invitations


def test_a_user_is_changed_and_the_audit_log_tells(console: AdminConsole, accounts: Accounts) -> None:
    user = console.add_person("changed")
    address = f"/console/users/{user.id}"
    shown = read_hidden(console.get(address), "shown")
    form = {"name": "Marie", "role": "administrator", "state": "disabled", "shown": shown}
    assert console.post(address, **form).code == 303
    changed = accounts.users.get(user.id)
    assert (changed.name, changed.role, changed.state) == ("Marie", "administrator", "disabled")
    assert last_events(console, "user.set_role")[0] == ("root@example.org", user.id, "127.0.0.1")
    assert console.send("GET", "/console/", "changed").code == 302
    page = read_texts(console.get("/console/audit?kind=user"))
    assert "changed the role of a user" in page
    assert "before: member" in page


def test_of_two_administrators_who_edit_a_user_the_second_is_told(console: AdminConsole, accounts: Accounts) -> None:
    user = console.add_person("edited")
    address = f"/console/users/{user.id}"
    shown = read_hidden(console.get(address), "shown")
    assert console.post(address, name="A", role="member", state="active", shown=shown).code == 303
    second = console.post(address, name="B", role="member", state="active", shown=shown)
    assert second.code == 409
    assert "Somebody has changed this user" in second.body.decode()
    assert accounts.users.get(user.id).name == "A"


def test_the_last_administrator_stays(console: AdminConsole, accounts: Accounts) -> None:
    root = console.users["administrator"]
    address = f"/console/users/{root.id}"
    shown = read_hidden(console.get(address), "shown")
    for role, state in (("member", "active"), ("administrator", "disabled")):
        response = console.post(address, name="", role=role, state=state, shown=shown)
        assert response.code == 409
        assert "administrator" in response.body.decode()
    assert console.post(f"{address}/delete", email=root.email).code == 409
    found = accounts.users.get(root.id)
    assert (found.role, found.state) == ("administrator", "active")


def test_a_reset_link_is_shown_once_and_works(console: AdminConsole, accounts: Accounts) -> None:
    user = console.add_person("forgetful")
    made = console.post(f"/console/users/{user.id}/reset")
    link = re.search(r"/console/reset\?token=([\w-]+)", made.body.decode())
    assert link is not None
    assert link[1] not in console.get(f"/console/users/{user.id}")
    assert accounts.reset_links.use(link[1], "a new password").id == user.id
    assert link[1] not in console.get("/console/audit")


def test_sessions_end_but_not_the_visitors_own(console: AdminConsole) -> None:
    user = console.add_person("left")
    assert console.send("GET", "/console/", "left").code == 200
    assert console.post(f"/console/users/{user.id}/sessions").code == 303
    assert console.send("GET", "/console/", "left").code == 302
    assert console.post(f"/console/users/{console.users['administrator'].id}/sessions").code == 303
    assert console.send("GET", "/console/").code == 200


def test_a_user_is_deleted_when_the_email_is_typed(console: AdminConsole, accounts: Accounts) -> None:
    user = console.add_person("gone")
    address = f"/console/users/{user.id}"
    refused = console.post(f"{address}/delete", email="somebody else")
    assert refused.code == 400
    assert "Type the e-mail" in refused.body.decode()
    assert console.post(f"{address}/delete", email="GONE@example.org").code == 303
    assert console.send("GET", address).code == 404
    with pytest.raises(AccountError):
        accounts.users.get(user.id)


def test_an_invitation_is_made_used_listed_and_revoked(console: AdminConsole, accounts: Accounts) -> None:
    address = "/console/users/invitations"
    made = console.post(address, email="New@Example.org", role="member", team=console.team.id, seconds="86400")
    link = re.search(r"/console/signup\?invitation=([\w-]+)", made.body.decode())
    assert link is not None
    page = console.get(address)
    assert "new@example.org" in page
    assert link[1] not in page
    invitation = accounts.invitations.find_invitation(link[1])
    assert invitation.team == console.team.id
    assert 86000 < invitation.expires - time.time() <= 86400
    assert console.post(f"{address}/{invitation.id}/revoke").code == 303
    with pytest.raises(AccountError):
        accounts.invitations.find_invitation(link[1])


FAULTY: dict[str, tuple[dict[str, str], set[str]]] = {
    "/console/users/{user}/bounds": (
        {"requests_per_minute": "x", "usd_per_day": "-3", "tokens_per_day": "0"},
        {"requests_per_minute", "usd_per_day", "tokens_per_day"},
    ),
    "/console/teams/{team}": ({"name": " ", "usd_per_day": "free"}, {"name", "usd_per_day"}),
    "/console/limits": ({"kind": "gateway", "value": "x", "until": "soon"}, {"value", "until"}),
    "/console/providers/new": ({"vendor": "", "name": "a b", "action": "show"}, {"vendor", "name"}),
    "/console/models/new": ({"name": "", "usd_per_day": "-1", "action": "show"}, {"name", "usd_per_day"}),
}
"""Fields with faults by the address of a form, and the fields beside which the page must say so."""


@pytest.mark.parametrize("address", FAULTY)
def test_every_fault_of_a_form_is_named_at_its_field(console: AdminConsole, accounts: Accounts, address: str) -> None:
    address_of_form = address.format(user=accounts.users.list_page()[0][0].id, team=console.team.id)
    page = console.get(address_of_form.removesuffix("/bounds"))
    shown = re.search(r'name="shown" value="([^"]*)"', page)
    fields, faulty = FAULTY[address]
    response = console.post(address_of_form, shown=shown[1] if shown else "", **fields)
    assert response.code == 400
    assert set(re.findall(r'class="field-error" id="(\w+)-error"', response.body.decode())) >= faulty


def test_the_role_in_a_team_is_told_in_a_sentence() -> None:
    assert describe_role("ann@example.org", "administrator") == "ann@example.org is an administrator of the team."
    assert describe_role("ann@example.org", "member") == "ann@example.org is a member of the team."


@pytest.mark.parametrize(
    "form",
    [
        {"email": "not an e-mail", "role": "member", "seconds": "86400"},
        {"email": "", "role": "owner", "seconds": "86400"},
        {"email": "", "role": "member", "seconds": "99999999999"},
        {"email": "", "role": "member", "seconds": "nan"},
        {"email": "", "role": "member", "seconds": "86400", "team": "team_none"},
        {"email": "a\x00b@example.org", "role": "member", "seconds": "86400"},
        {},
    ],
)
def test_a_wrong_invitation_is_refused(console: AdminConsole, accounts: Accounts, form: dict[str, str]) -> None:
    before = len(accounts.invitations.list_newest())
    assert console.post("/console/users/invitations", **form).code == 400
    assert len(accounts.invitations.list_newest()) == before


@pytest.mark.parametrize(
    ("signup", "text"),
    [("open", "Anybody may sign up"), ("invite", "with an invitation"), ("closed", "Sign-up is closed")],
)
def test_the_policy_of_sign_up_is_shown(tmp_path: Path, signup: str, text: str) -> None:
    with serve_console(tmp_path, console=ConsoleConfig(signup=signup)) as served:
        assert text in served.get("/console/users")


# Teams


def test_organisations_and_teams_are_made_and_removed(console: AdminConsole, accounts: Accounts) -> None:
    assert console.post("/console/teams/organisations", organisation_name="Arts").code == 303
    assert console.post("/console/teams/organisations", organisation_name="Arts").code == 400
    organisation = next(one for one in accounts.organisations.list_all() if one.name == "Arts")
    made = console.post("/console/teams", organisation=organisation.id, name="Music")
    assert made.code == 303
    team = made.headers["Location"]
    assert console.post(f"/console/teams/organisations/{organisation.id}", do="delete").code == 409
    assert console.post(f"{team}/delete", confirm="music").code == 400
    assert console.post(f"{team}/delete", confirm="Music").code == 303
    assert console.send("GET", team).code == 404
    address = f"/console/teams/organisations/{organisation.id}"
    assert console.post(address, name="Fine arts").code == 303
    assert "Fine arts" in console.get("/console/teams")
    assert console.post(address, do="delete").code == 303
    assert console.send("GET", address).code == 404


def test_bounds_of_a_team_are_changed_unless_somebody_else_was_faster(
    console: AdminConsole, accounts: Accounts
) -> None:
    address = f"/console/teams/{console.other_team.id}"
    shown = read_hidden(console.get(address), "shown")
    form = {"name": "Biology", "usd_per_month": "12.50", "requests_per_minute": "60", "models": "gpt-*\nlocal-chat"}
    assert console.post(address, **form, shown=shown).code == 303
    [team] = [one for one in accounts.teams.list_all() if one.id == console.other_team.id]
    assert dict(team.budget) == {"usd_per_month": 12.5}
    assert dict(team.limits) == {"requests_per_minute": 60}
    assert list(team.models) == ["gpt-*", "local-chat"]
    assert console.post(address, **form, shown=shown).code == 409
    shown = read_hidden(console.get(address), "shown")
    for wrong in ("-1", "ten", "1e400", "nan"):
        refused = console.post(address, name="Biology", usd_per_month=wrong, shown=shown)
        assert refused.code == 400, wrong
        assert "aria-invalid" in refused.body.decode() or "notice error" in refused.body.decode()


def test_an_administrator_of_a_team_manages_its_members_only(console: AdminConsole, accounts: Accounts) -> None:
    user = console.add_person("joins")
    address = f"/console/teams/{console.team.id}"
    assert console.post(f"{address}/members", "lead", email="JOINS@example.org", role="member").code == 303
    assert console.post(f"{address}/members", "lead", email="nobody@example.org", role="member").code == 400
    assert console.post(f"{address}/members", "lead", email="joins@example.org", role="owner").code == 400
    assert console.post(f"{address}/members/{user.id}", "lead", role="administrator").code == 303
    assert {one.user.email: one.role for one in accounts.members.list_of_team(console.team.id)}[
        "joins@example.org"
    ] == ("administrator")
    assert "are revoked" in console.get(f"{address}/members/{user.id}/remove", "lead")
    assert console.post(f"{address}/members/{user.id}/remove", "lead").code == 303
    assert console.send("GET", address, "joins").code == 403
    assert console.post(f"{address}/members/{user.id}/remove", "lead").code == 404
    page = console.get(address, "lead")
    assert "Delete team" not in page
    assert console.post(address, "lead", name="Mine", shown="").code == 403
    invited = console.post(f"{address}/invite", "lead", invited="friend@example.org")
    link = re.search(r"invitation=([\w-]+)", invited.body.decode())
    assert link is not None
    assert accounts.invitations.find_invitation(link[1]).role == "member"


# Requests


def test_failed_requests_are_listed_with_the_reason_in_words(console: AdminConsole) -> None:
    console.add_request("req-timeout", cost=1_500_000_000)
    fine = console.add_request("req-fine", outcome="complete", error_code="", status=200, model="fine-model")
    page = read_texts(console.get("/console/requests"))
    assert "The provider sent nothing within the time limit." in page
    assert "member@example.org" in page
    assert "$1.50" in page
    assert "fine-model" not in page
    assert "fine-model" in console.get("/console/requests?show=all&model=fine-model")
    assert "No request matches" in console.get("/console/requests?model=none-such")
    found = console.send("GET", "/console/requests?id=req-fine")
    assert (found.code, found.headers["Location"]) == (302, f"/console/requests/req-fine?row={fine}")
    assert "has no request with the id" in console.get("/console/requests?id=%27%22%3E")


def test_requests_are_shown_page_by_page(console: AdminConsole) -> None:
    moment = time.time() - 1000
    for number in range(60):
        console.add_request(f"page-{number}", model="paged", moment=moment + number)
    first = console.get("/console/requests?model=paged")
    older = re.search(r'href="([^"]*before=[^"]*)"', first)
    assert older is not None
    second = console.get(html.unescape(older[1]))
    shown = [set(re.findall(r"/console/requests/(page-\d+)\?", page)) for page in (first, second)]
    assert len(shown[0]) == 50
    assert len(shown[1]) == 10
    assert not shown[0] & shown[1]


def test_a_request_is_shown_with_every_column(console: AdminConsole) -> None:
    console.add_request(
        "req-whole", input_tokens=1234, cached_input_tokens=1000, first_byte_ms=12.0, tags=("night", "ci"),
        end_user="u-1", attribution={"application": "editor"}, estimated=True,
    )  # fmt: skip
    page = read_texts(console.get("/console/requests/req-whole"))
    for text in ("1,234", "1,000", "12 ms", "60,012 ms", "night, ci", "u-1", "editor", "Science / Physics", "yes"):
        assert text in page, text
    assert "wait" not in page
    assert console.send("GET", "/console/requests/req-unknown").code == 404


def test_of_several_requests_with_one_id_the_chosen_one_is_shown(console: AdminConsole) -> None:
    first = console.add_request("req-twice", model="first-model", moment=time.time() - 60)
    assert "first-model" in console.get("/console/requests/req-twice")
    console.add_request("req-twice", model="second-model")
    for address in ("req-twice", "req-twice?row=0&row=%00", "req-twice/explain"):
        response = console.send("GET", f"/console/requests/{address}")
        assert (response.code, response.headers["Location"]) == (302, "/console/requests?show=all&id=req-twice"), (
            address
        )
    for address in ("?show=all&id=req-twice", "?id=req-twice"):
        page = console.get(f"/console/requests{address}")
        assert "Several requests have the id req-twice" in page
        assert "first-model" in page
        assert "second-model" in page
        assert page.count("?row=") == 2
    for address in (f"req-twice?row={first}", first):
        page = console.get(f"/console/requests/{address}")
        assert "first-model" in page, address
        assert "second-model" not in page, address


def test_filters_and_limits_take_names(console: AdminConsole) -> None:
    store = KeyStore(console.services.database)
    user = console.users["lead"]
    _, key = store.create("Nightly build", account=user.id, user=user.id)
    console.add_request("req-by-name", key=key.id, user=user.id, model="by-name")
    for filters in ("key=nightly%20build", "user=LEAD@example.org", f"key={key.id}"):
        assert "req-by-name" in console.get(f"/console/requests?{filters}"), filters
    assert "req-by-name" not in console.get("/console/requests?key=nightly")
    page = console.get("/console/requests")
    assert '<option value="Nightly build">key</option>' in page
    assert '<option value="lead@example.org">user</option>' in page
    form = {"bound": "requests_per_minute", "value": "3", "factor": "", "until": "2h"}
    assert console.post("/console/limits", kind="key", subject="Nightly build", **form).code == 303
    page = console.get("/console/limits")
    assert "key Nightly build<br>" in page
    refused = console.post("/console/limits", kind="user", subject="nobody@example.org", **form)
    assert refused.code == 400
    assert "There is no user with this id." in refused.body.decode()
    events = list_events(console.services.database, actor=console.users["administrator"].id)
    assert events[0].detail["subject"] == key.id
    assert "limit" in console.get("/console/audit?actor=root@example.org")


def test_home_says_how_a_vendor_is_added_to_the_file(tmp_path: Path) -> None:
    free = {"local": ProviderConfig(name="local", plugin="local")}
    with serve_console(tmp_path, providers=free) as empty:
        assert "Put these lines at the end of the file." in empty.get("/console/")
    (tmp_path / "shipped").mkdir()
    off = ((("providers", "openai"), "its plugin 'openai' is off"), (("models", "gpt-4o"), "its provider is off"))
    with serve_console(tmp_path / "shipped", providers=free, inactive=off) as shipped:
        page = shipped.get("/console/")
    assert "has entries of vendors that are off: openai." in page
    assert "provider-yaml" not in page


def test_usage_counts_a_video_once_and_its_polls_apart(console: AdminConsole) -> None:
    video = {"model": "counted-video", "key": "key_counted", "status": 200, "error_code": "", "outcome": "complete"}
    console.add_request("video-made", operation="video_tasks", **video)
    for number in range(5):
        console.add_request(f"video-poll-{number}", operation="videos", **video)
    for group in ("model", "key", "status"):
        page = console.get(f"/console/usage?model=counted-video&group={group}")
        assert re.search(r'All</th><td class="number">1</td><td class="number">0</td>', page), group
        assert "The figures leave out 5 more requests that made nothing" in page, group


def test_explain_tells_what_would_happen_now(console: AdminConsole) -> None:
    store = KeyStore(console.services.database)
    user = console.users["member"].id
    _, key = store.create("k", account=user, user=user, models=["smart"], limits={"requests_per_minute": 7})
    console.add_request("req-explain", key=key.id, model="smart")
    page = read_texts(console.get("/console/requests/req-explain/explain"))
    assert "Such a request would go to" in page
    assert "requests per minute of the key k: 7 requests left of 7 requests" in page
    assert "in a random order by weight" in page
    _, spent = store.create("spent", account=user, user=user, limits={"requests_per_minute": 1})
    gate = console.services.gate
    bounds = console.runner.run(gate.callers.describe(spent.digest)).bounds
    console.runner.run(gate.admission.limiter.reserve(bounds, [1]))
    console.add_request("req-spent", key=spent.id, model="local-chat")
    page = read_texts(console.get("/console/requests/req-spent/explain"))
    assert "Such a request would be refused: 429 rate_limited" in " ".join(page.split())
    assert "would go to local" not in page.partition("Without this limit")[0]
    console.runner.run(console.services.gate.keys.stop())
    assert store.get(key.id).last_used is None
    console.runner.run(console.services.gate.keys.start())
    console.add_request("req-denied", key=key.id, model="local-chat")
    page = read_texts(console.get("/console/requests/req-denied/explain"))
    assert "403 model_not_allowed" in page
    assert "Add the model to the scopes of the key." in page
    console.add_request("req-none", key=key.id, model="gone")
    assert "model_not_found" in read_texts(console.get("/console/requests/req-none/explain"))
    store.revoke(key.id)
    console.runner.run(console.services.gate.keys.check())
    assert "not valid" in read_texts(console.get("/console/requests/req-explain/explain"))
    console.add_request("req-old", key="conf:removed")
    assert "no longer in conf" in read_texts(console.get("/console/requests/req-old/explain"))


# Audit log


def test_the_audit_log_has_filters_pages_and_a_table(console: AdminConsole, accounts: Accounts) -> None:
    user = console.add_person("audited")
    for number in range(105):
        accounts.users.set_name(user.id, f"=cmd {number}", console.actor)
    first = console.get(f"/console/audit?actor={console.users['administrator'].id}&kind=user")
    assert "=cmd 104" in read_texts(first)
    older = re.search(r'href="([^"]*before=[^"]*)"', first)
    assert older is not None
    assert "=cmd 1" in read_texts(console.get(html.unescape(older[1])))
    table = console.send("GET", "/console/audit.csv?kind=user")
    assert table.headers["Content-Type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(table.body.decode())))
    assert rows[0]["action"] == "user.set_name"
    assert '"name": "=cmd 104"' in rows[0]["detail"]
    texts = describe_detail(
        {"expires": 1798040102.36, "models": [], "limits": {"requests_per_minute": None}, "role": ""}
    )
    assert texts == "expires: 2026-12-23 15:35 UTC, models: all, limits: (requests per minute none), role: none"
    assert {row["action"].partition(".")[0] for row in rows} == {"user"}


# Bad input


def test_no_text_becomes_markup_on_any_page(console: AdminConsole, accounts: Accounts) -> None:
    """Every text that people choose, stored where it is accepted, and as a parameter of every list."""
    user = console.users["member"]
    for number, text in enumerate(CORPUS):
        for store in (
            lambda text=text: accounts.users.set_name(user.id, text, console.actor),
            lambda text=text: accounts.teams.create(console.organisation.id, text, console.actor),
            lambda text=text: accounts.organisations.create(text, console.actor),
            lambda text=text, number=number: console.add_request(
                f"xss-{number}", key_name=text, model=text, error_code=text, end_user=text, provider=text,
                upstream_model=text, tags=(text,), attribution={text: text}, body=text,
            ),
        ):  # fmt: skip
            try:
                store()
            except (AccountError, UnicodeError):
                continue
    teams = [f"/console/teams/{team.id}" for team in accounts.teams.list_all()]
    requests = [f"/console/requests/xss-{number}" for number in range(0, len(CORPUS), 7)]
    pages = [
        "/console/users",
        f"/console/users/{user.id}",
        "/console/users/invitations",
        "/console/teams",
        *teams[:40:5],
    ]
    pages += ["/console/requests", "/console/requests?show=all", *requests, f"{requests[0]}/explain", "/console/audit"]
    for page in pages:
        assert find_markup(console.get(page)) == [], page


@pytest.mark.parametrize("path", ["/console/users", "/console/models", "/console/requests", "/console/audit"])
def test_parameters_of_lists_may_be_anything(console: AdminConsole, path: str) -> None:
    for text in ("%00", "%ff", "%27%22%3E%3Cscript%3Exss7()%3C/script%3E", "x" * 5000, "%F0%9F%91%A9", "-1", "1e9"):
        names = ("search", "page", "before", "kind", "actor", "model", "key", "user", "team", "id", "state", "show")
        query = "&".join(f"{name}={text}" for name in names)
        response = console.send("GET", f"{path}?{query}")
        assert response.code in (200, 400), (text, response.code)
        assert find_markup(response.body.decode()) == []


@pytest.mark.parametrize(
    "identity", ["none", "user_none", "..", "%2e%2e", "a" * 61, "%00", "%27", "a%2Fb", "user_1%0d%0aX: y"]
)
def test_ids_of_nothing_are_not_found(console: AdminConsole, identity: str) -> None:
    for path in ("/console/users", "/console/teams", "/console/teams/organisations", "/console/requests"):
        assert console.send("GET", f"{path}/{identity}").code in (400, 404), path
    assert console.post(f"/console/users/{identity}/delete", email="x").code in (400, 404)
    assert console.post(f"/console/teams/{identity}/delete", confirm="x").code in (400, 404)


def test_pages_work_on_both_databases_with_ten_thousand_users(tmp_path: Path, database_address: str) -> None:
    with serve_console(tmp_path, database_address) as console:
        row = {"role": "member", "state": "active", "name": "", "created": 1.0}
        emails = [f"p{number:05}@example.org" for number in range(10_000)]
        people = [{**row, "id": f"user_{email[1:6]}", "email": email, "email_key": email} for email in emails]
        with console.services.database.write() as connection:
            connection.execute(insert(tables.users), people)
        page = console.get("/console/users?page=200")
        assert "9,951 to 10,000 of 10,004" in page
        assert "p09999@example.org" in page
        assert "p09999@example.org" in console.get("/console/users?search=P09999")
        assert "p04950@example.org" in console.get("/console/users?page=100")
        console.add_request("req-1", tags=("a",), attribution={"b": "c"})
        assert console.post(f"/console/teams/{console.team.id}/invite", "lead", invited="a@example.org").code == 200
        shown = read_hidden(console.get("/console/users/user_00001"), "shown")
        form = {"name": "A", "role": "administrator", "state": "active", "shown": shown}
        assert console.post("/console/users/user_00001", **form).code == 303
        for path in (*list_plain_pages(), "/console/requests/req-1", "/console/requests/req-1/explain"):
            console.get(path)


def list_plain_pages() -> list[str]:
    """The addresses of the pages without arguments."""
    return [pattern.replace("\\", "") for pattern, _ in admin_pages.ROUTES if "(" not in pattern]


def test_every_admin_page_has_one_heading_and_names_its_fields(console: AdminConsole) -> None:
    lists = [path for path in list_plain_pages() if not path.endswith(("csv", "jsonl"))]
    assert len(lists) >= 9
    for path in lists:
        page = console.get(path)
        assert page.count("<h1>") == 1
        for table in re.findall(r"<table.*?</table>", page, re.DOTALL):
            assert "<caption" in table
            assert "<th scope=" in table
            assert not re.search(r"<th>", table)
        for field in re.findall(r"<(?:input|select|textarea)[^>]*>", page):
            if 'type="hidden"' not in field:
                identity = re.search(r'id="([^"]+)"', field)
                assert "aria-label=" in field or (identity and f'for="{identity[1]}"' in page), field


def test_the_token_of_forms_is_not_in_addresses(console: AdminConsole) -> None:
    assert f"_xsrf={TOKEN}" not in console.get("/console/users")
