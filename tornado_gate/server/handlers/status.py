"""The handlers of /, /healthz, /readyz and /metrics without a key, of OPTIONS *, and of requests without a handler."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from tornado_gate import __version__
from tornado_gate.errors import GateError, NotAllowed
from tornado_gate.pipeline import auth
from tornado_gate.pipeline.gate import Gate
from tornado_gate.server.handlers import common
from tornado_gate.server.handlers.base import GateHandler
from tornado_gate.server.handlers.cors import is_allowed, make_preflight_headers
from tornado_gate.server.handlers.exchange import CallerRequest, Exchange


class StatusHandler(GateHandler):
    """A handler that probes call every few seconds. Its requests are neither counted nor logged."""

    def on_finish(self) -> None:
        """Do not count or log the request."""


class RootHandler(StatusHandler):
    """The handler of the base URL. It sends browsers to the console. Clients such as claude-code 2.1 probe it with HEAD."""

    def get(self) -> None:
        if self.snapshot.config.console.enabled and "text/html" in self.request.headers.get("Accept", ""):
            self.redirect("/console/")
            return
        self.write({"name": "tornado_gate", "status": "ok"})

    head = get


class HealthHandler(StatusHandler):
    """The handler that reports that the process runs."""

    def get(self) -> None:
        self.write({"status": "ok", "version": __version__})

    head = get


class ReadyHandler(StatusHandler):
    """The handler that reports whether the process accepts requests.

    It returns 503 while the process shuts down or is overloaded, while a required plugin cannot work, and in a crash loop. Other
    plugins that are on and cannot work are named in `failed_plugins`: only requests that need them fail. A process that shares
    its database with other nodes also sends the id of its node, and versions of the configuration. `media_store` is sent while
    the bucket does not respond: requests that do not need it are served.
    """

    def get(self) -> None:
        if self.gate.readiness.is_draining:
            self.set_status(503)
            self.write({"status": "draining"})
            return
        if self.gate.readiness.is_crash_loop():
            self.set_status(503)
            self.write({"status": "crash_loop", "reason": "processes end soon after their start; see the log"})
            return
        options = self.snapshot.config.plugin_options
        incomplete = {name for name in self.gate.host.deferred_faults if name in options and options[name].required}
        if unavailable := self.snapshot.plugins.closed | incomplete:
            self.set_status(503)
            self.write({"status": "plugin_unavailable", "plugins": sorted(unavailable)})
            return
        reasons = [reason for check in self.gate.readiness.checks if (reason := check())]
        if reasons:
            self.set_status(503)
            self.write({"status": "overloaded", "reason": "; ".join(reasons)})
            return
        failed = sorted(
            {*self.snapshot.plugins.failed, *(name for name in self.gate.host.deferred_faults if name in options)}
        )
        more = {"failed_plugins": failed} if failed else {}
        for describe in self.gate.readiness.notes:
            more |= describe()
        self.write({"status": "ready", "configuration": self.snapshot.number, **more})

    head = get


class MetricsHandler(StatusHandler):
    """The handler of metrics in Prometheus' text format, on the callers' port. `auth.check_metrics_access` has the rules."""

    has_own_port = False

    async def get(self) -> None:
        server = self.snapshot.config.server
        try:
            auth.check_metrics_access(
                self.request.headers.get("Authorization", ""),
                token=server.metrics_token,
                is_local=self.has_own_port or common.is_from_this_machine(self.request, server),
            )
        except GateError as error:
            self.fail(error)
            return
        # With several processes, rendering reads the metrics files of all of them.
        body, content_type = await asyncio.to_thread(self.gate.metrics.render)
        self.set_header("Content-Type", content_type)
        self.finish(body)

    head = get


class MetricsPortHandler(MetricsHandler):
    """The handler of metrics on a separate port. The operator controls access to this port."""

    has_own_port = True


class RefusalHandler(Exchange):
    """A handler that sends an error before the body of its request is read.

    The error is 404, 405, or 413 for a body on a path that takes none.
    """

    def __init__(self, gate: Gate, request: CallerRequest, error: GateError, format: str) -> None:
        super().__init__(gate, request, format)
        self._error = error

    def prepare(self) -> Awaitable[None] | None:
        if common.has_body(self.request.lowered):
            raise self._error
        return None

    async def answer(self) -> None:
        self.fail(self._error)


class PreflightHandler(Exchange):
    """The handler of OPTIONS before a request of a web page at another origin. It needs no key, because browsers send none."""

    async def answer(self) -> None:
        cors, headers = self.snapshot.config.cors, self.request.lowered
        if not is_allowed(cors, headers["origin"]):
            message = "The origin of this web page is not in cors.origins of the gateway's configuration."
            self.fail(NotAllowed(message, code="origin_not_allowed"))
            return
        self.set_status(204)
        self.set_headers(make_preflight_headers(cors, headers))
        self.end()


class OptionsHandler(Exchange):
    """The handler of OPTIONS *, which returns the methods of the server as a whole (RFC 9110 9.3.7)."""

    async def answer(self) -> None:
        self.set_status(204)
        self.set_header("Allow", ", ".join(common.METHODS))
        self.end()
