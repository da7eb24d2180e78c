"""The page of alerts: their receivers with a test, and the last alerts with the delivery of their messages."""

from __future__ import annotations

from urllib.parse import urlsplit

from tornado_gate.accounts import audit
from tornado_gate.config.alerting import EVENTS, SinkConfig
from tornado_gate.errors import NotFound
from tornado_gate.server.console.admin_base import AdminHandler
from tornado_gate.server.console.attention import MAX_ITEMS, list_gateway_items
from tornado_gate.server.console.base import ConsoleHandler
from tornado_gate.server.console.languages.catalogues import mark, translate, translate_labels
from tornado_gate.types.value import Value

ALERTS = "/console/alerts"
ROWS = 100
KIND_NAMES = {
    "budget": mark("budgets"),
    "circuit": mark("open circuits"),
    "provider_key": mark("refused provider keys"),
    "configuration": mark("rejected configuration"),
    "key_expiry": mark("expiring keys"),
    "spool": mark("full spool"),
}


MESSAGE_STATES = {"queued": mark("queued"), "sent": mark("sent"), "failed": mark("failed"), "dropped": mark("dropped")}


class SinkView(Value, frozen=True, kw_only=True):
    """A receiver for the page, without secrets: of an address only the host."""

    name: str
    type: str
    target: str
    events: str
    per_minute: int


class AlertsPage(AdminHandler):
    """`/console/alerts`: the list; its form sends a test."""

    async def get(self) -> None:
        from tornado_gate.alerts.store import AlertStore  # the pages are imported even if there are no alerts

        sinks = self.snapshot.config.alerts.sinks
        items = await list_gateway_items(self.gate, self.run_database)
        self.render_page(
            "alerts.html",
            title=translate("Alerts"),
            items=items[:MAX_ITEMS],
            more_items=max(0, len(items) - MAX_ITEMS),
            sinks=[describe_sink(sink) for sink in sinks.values()],
            alerts=await self.run_database(AlertStore(self.services.database).list_recent, ROWS),
            kind_names=dict(translate_labels(KIND_NAMES.items())),
            states={state: translate(text) for state, text in MESSAGE_STATES.items()},
        )

    async def post(self) -> None:
        from tornado_gate.alerts.sending import send_test

        config, name = self.snapshot.config, self.get_field("sink")
        sink = config.alerts.sinks.get(name)
        if sink is None:
            raise NotFound(translate("The configuration has no such receiver of alerts."))
        await self.run_database(self._record_test, name)
        error = (await send_test(self.services.fetcher, [sink], config.server.public_url))[name]
        if error:
            self.flash(translate("The test did not reach '{name}': {error}").format(name=name, error=error), "warning")
        else:
            self.flash(translate("A test was sent to '{name}'.").format(name=name))
        self.redirect(ALERTS, status=303)

    def _record_test(self, sink: str) -> None:
        with self.services.database.write() as connection:
            audit.record(connection, self.make_actor(), "alert.test", sink)


def describe_sink(sink: SinkConfig) -> SinkView:
    is_mail = sink.type == "email"
    target = (
        f"{', '.join(sink.recipients)} by {sink.host}:{sink.port}" if is_mail else urlsplit(sink.url).hostname or ""
    )
    events = [translate(KIND_NAMES[event]) for event in EVENTS if event in sink.events]
    return SinkView(
        name=sink.name,
        type=sink.type,
        target=target,
        events=translate("all") if len(events) == len(EVENTS) else ", ".join(events),
        per_minute=sink.per_minute,
    )


ROUTES: list[tuple[str, type[ConsoleHandler]]] = [(ALERTS, AlertsPage)]
