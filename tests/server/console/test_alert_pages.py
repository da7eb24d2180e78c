"""The page of alerts: receivers without their secrets, a test, and the last alerts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.admin_console import AdminConsole, serve_console
from tests.support.upstream import Upstream, answer
from tornado_gate.alerts.store import AlertStore
from tornado_gate.alerts.values import Alert, Words
from tornado_gate.config.alerting import AlertsConfig, SinkConfig
from tornado_gate.types.value import replace


@pytest.fixture(scope="module")
def upstream() -> Iterator[Upstream]:
    started = Upstream.start()
    yield started
    started.stop()


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory, upstream: Upstream) -> Iterator[AdminConsole]:
    with serve_console(tmp_path_factory.mktemp("console")) as served:
        sinks = {
            "ops": SinkConfig(name="ops", type="slack", url=f"{upstream.url}/slack/T0-secret"),
            "mail": SinkConfig(
                name="mail", type="email", host="smtp.example.org", port=587, recipients=("ops@example.org",),
                password="swordfish", events=frozenset({"spool"}),
            ),
        }  # fmt: skip
        snapshot = served.services.gate.snapshot
        config = replace(snapshot.config, alerts=AlertsConfig(sinks=sinks))
        served.services.gate.snapshot = replace(snapshot, config=config)
        yield served


def test_receivers_are_listed_without_secrets(console: AdminConsole) -> None:
    page = console.get("/console/alerts")
    assert "ops@example.org by smtp.example.org:587" in page
    assert "full spool" in page
    assert "127.0.0.1" in page
    assert "T0-secret" not in page
    assert "swordfish" not in page


def test_a_test_is_sent_and_stands_in_the_audit_log(console: AdminConsole, upstream: Upstream) -> None:
    upstream.script(answer("ok"), answer("no", status=404))
    assert console.send("POST", "/console/alerts", form={"sink": "ops"}).headers["Location"] == "/console/alerts"
    (request,) = upstream.wait_for_requests(1)
    assert request.json["text"].startswith("*[Test] Test of the alerts*")
    response = console.send("POST", "/console/alerts", form={"sink": "ops"})
    assert response.code == 303
    assert console.send("POST", "/console/alerts", form={"sink": "other"}).code == 404
    assert "sent a test of the alerts" in console.get("/console/audit")


def test_the_last_alerts_have_the_state_of_their_messages(console: AdminConsole) -> None:
    title = "<b>title</b>"
    alert = Alert(kind="spool", cause="spool:a", severity="critical", heading=Words(title), explanation=Words("why"))
    store, sinks = AlertStore(console.services.database), console.services.gate.snapshot.config.alerts.sinks
    store.record([alert], sinks.values())
    (claimed,) = store.claim(sinks["mail"])
    store.finish(claimed, "The mail server answered 451.")
    page = console.get("/console/alerts")
    assert "&lt;b&gt;title&lt;/b&gt;" in page
    assert "The mail server answered 451." in page
    assert '<span class="badge warn">queued</span>' in page
