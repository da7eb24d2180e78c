"""The parts of a process, and the Tornado application, which selects the handler of each path.

There are three kinds of paths: the public paths in `PUBLIC_HANDLERS`; the routes of formats and /v1/_explain, which need a key
(`AuthenticatedHandler`, `SocketHandler`); and addresses of stored files, which need a signature.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from tornado.httputil import (
    HTTPConnection,
    HTTPHeaders,
    HTTPMessageDelegate,
    HTTPServerRequest,
    RequestStartLine,
    ResponseStartLine,
)
from tornado.web import Application

from tornado_gate.account_shares import AccountShares
from tornado_gate.accounts.accounts import Accounts
from tornado_gate.accounts.identity_provider import IdentityProvider
from tornado_gate.accounts.keys import KeyStore
from tornado_gate.admission.body_budget import BodyBudget
from tornado_gate.admission.body_rates import BodyRates
from tornado_gate.config.model import Config
from tornado_gate.errors import GateError, MethodNotAllowed, TooLarge
from tornado_gate.http.fetch import Fetcher
from tornado_gate.pipeline.calls import Calls
from tornado_gate.pipeline.gate import Gate
from tornado_gate.pipeline.health_checks import HealthChecks
from tornado_gate.plugins.host import PluginHost
from tornado_gate.realtime.client_secrets import ClientSecrets
from tornado_gate.realtime.sessions import OpenSessions
from tornado_gate.server import pages, paths
from tornado_gate.server.alerting import Alerting
from tornado_gate.server.handlers.answer_choice import AnswerHandlers
from tornado_gate.server.handlers.authenticated import parse_query
from tornado_gate.server.handlers.base import GateHandler
from tornado_gate.server.handlers.common import has_body
from tornado_gate.server.handlers.cors import is_preflight
from tornado_gate.server.handlers.exchange import CallerRequest, Exchange
from tornado_gate.server.handlers.explain import ExplainHandler
from tornado_gate.server.handlers.known_heads import KnownHead
from tornado_gate.server.handlers.media import MediaHandler
from tornado_gate.server.handlers.message_socket import MessageSocketHandler
from tornado_gate.server.handlers.repeated_answer import RepeatedAnswerHandler
from tornado_gate.server.handlers.sockets import SocketHandler
from tornado_gate.server.handlers.status import (
    HealthHandler,
    MetricsHandler,
    MetricsPortHandler,
    OptionsHandler,
    PreflightHandler,
    ReadyHandler,
    RefusalHandler,
    RootHandler,
)
from tornado_gate.server.openapi.description import ApiDescription, DescriptionHandler
from tornado_gate.server.process.configuration_state import ConfigurationState
from tornado_gate.server.services import FileSweeper, Services
from tornado_gate.server.state_stores import make_state_stores
from tornado_gate.storage.files import MediaStore
from tornado_gate.storage.media_stores import BucketReports, BucketStart, open_media_stores
from tornado_gate.storage.stored_file_fetcher import StoredFileFetcher
from tornado_gate.tapes.tapes import Tapes
from tornado_gate.targets.routing import MatchedRoute
from tornado_gate.tasks.engine import TaskEngine
from tornado_gate.tasks.metrics import TaskMetrics
from tornado_gate.tasks.opening import make_task_store, make_webhook_secrets
from tornado_gate.tasks.provider_client import ProviderClient
from tornado_gate.tasks.service import TaskService
from tornado_gate.tasks.usage import record_task, settle_task
from tornado_gate.tasks.webhook_sender import WebhookSender
from tornado_gate.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from tornado_gate.server.control.control import Control

PUBLIC_HANDLERS: Mapping[str, type[GateHandler]] = {
    "/": RootHandler,
    "/healthz": HealthHandler,
    "/readyz": ReadyHandler,
    "/metrics": MetricsHandler,
}
"""Paths that need no key. `GET` and `HEAD` only."""

EXPLAIN_PATH = "/v1/_explain"
DESCRIPTION_PATH = "/openapi.json"


class GateApplication(Application):
    """The application. It selects the handler of each request from the current snapshot, not from a list made at start.

    Routes of formats get an `Exchange`; operator pages, stored files and WebSockets get a Tornado handler.
    """

    def __init__(self, services: Services, public: Mapping[str, type[GateHandler]]) -> None:
        super().__init__(log_function=lambda _handler: None)
        self._services = services
        self._gate = services.gate
        self._answers = services.answers
        self._public = public
        self._description = ApiDescription(services.gate)

    def start_request(self, server_conn: object, request_conn: HTTPConnection) -> HTTPMessageDelegate:
        return _RequestDispatcher(self, server_conn, request_conn)

    def create_exchange(
        self, connection: HTTPConnection, start_line: RequestStartLine, headers: HTTPHeaders
    ) -> HTTPMessageDelegate | None:
        """Return the handler of a route that is the only one with its method and path; None for everything else.

        Raises HTTPInputError for a request with an invalid Host.
        """
        matched = self._gate.snapshot.routes.find_exclusive(start_line.method, start_line.path.partition("?")[0])
        if matched is None or matched.served.route.socket:
            return None
        return self._answers.make(CallerRequest(connection, start_line, headers), matched)

    def take_again(self, request_conn: HTTPConnection, note: KnownHead, body: bytes) -> HTTPMessageDelegate | None:
        """Begin a request whose head its client has repeated; `note` is from the handler of the first one. Return its handler.

        Return None if the configuration, or what the key may do, has changed since then.
        """
        snapshot = self._gate.snapshot
        if note.snapshot is not snapshot:
            note.forget()
            return None
        handler = RepeatedAnswerHandler(self._services, snapshot, note, request_conn)
        return handler if handler.take_request(note, body) else None

    def get_page_limit(self, start_line: RequestStartLine) -> int:
        """Return the maximum size in bytes of the body of a request for a Tornado handler.

        Only forms of the console have a body.
        """
        return paths.MAX_FORM_BYTES if paths.is_console_path(start_line.path) else 0

    def find_handler(self, request: HTTPServerRequest, **_: Any) -> Any:
        """Return the handler of a request, never None: a request without a route gets a handler that sends 404 or 405.

        Handlers of Tornado never get a body: it would be collected in memory, and parsed if it is a form, before the key is
        checked. So only routes that check a key take bodies.
        """
        caller_request = _to_caller_request(request)
        try:
            return self._find_page(request) or self._find_console(request) or self._find_route(request, caller_request)
        except GateError as error:
            wire_format = self._gate.snapshot.routes.find_format(request.path)
            return RefusalHandler(self._gate, caller_request, error, wire_format)

    def _find_page(self, request: HTTPServerRequest) -> Any:
        """Return the handler of a path that needs no key; None for any other path. Raises MethodNotAllowed, TooLarge."""
        method, path = request.method or "", request.path
        public = self._public.get(path[:-1] if path.endswith("/") and path.strip("/") else path)
        if public is not None:
            _check_bodiless_get(request)
            return self._create_delegate(request, public)
        if path in (DESCRIPTION_PATH, DESCRIPTION_PATH + "/"):
            _check_bodiless_get(request)
            return self._create_delegate(request, DescriptionHandler, description=self._description)
        if paths.is_docs_path(path) and self._gate.snapshot.config.console.enabled:
            _check_bodiless_get(request)
            return self._create_delegate(request, pages.get_docs_handler(), description=self._description)
        for store in (self._services.media, self._services.tasks.files):
            if path.startswith(store.address):
                _check_bodiless_get(request)
                return self._create_delegate(request, MediaHandler, store=store)
        if is_preflight(request.method or "", path, request.headers, self._gate.snapshot.config.cors):
            _check_bodiless(request)
            return PreflightHandler(self._gate, _to_caller_request(request))
        if path == "*" and method == "OPTIONS":
            _check_bodiless(request)
            return OptionsHandler(self._gate, _to_caller_request(request))
        return None

    def _find_console(self, request: HTTPServerRequest) -> Any:
        """Return the handler of a page or file of the console; None for any other path, and for all without a console."""
        if not paths.is_console_path(request.path) or not self._gate.snapshot.config.console.enabled:
            return None
        if request.path.startswith(paths.ASSETS):
            _check_bodiless_get(request)
            return self._create_delegate(request, pages.get_asset_handler())
        page, arguments = pages.find_console_page(request.path)
        return self.get_handler_delegate(request, page, {"services": self._services}, arguments)

    def _find_route(self, request: HTTPServerRequest, caller_request: CallerRequest) -> Any:
        """Return the handler of a route of a format, or of /v1/_explain. Raises GateError."""
        method, path = caller_request.method, caller_request.path
        if paths.is_admin_path(path) and self._gate.snapshot.config.console.enabled:
            return pages.get_admin_handler()(self._services, caller_request)
        if path in (EXPLAIN_PATH, EXPLAIN_PATH + "/"):
            if method != "POST":
                raise MethodNotAllowed(method, ["POST"])
            return ExplainHandler(self._services, caller_request)
        if method == "GET" and request.headers.get("Upgrade", "").lower() == "websocket":
            messages = self._gate.snapshot.routes.find_messages(path)
            if messages is not None:
                return self._open_socket(request, MessageSocketHandler, messages)
        matched = self._gate.snapshot.routes.match(method, path, request.headers, parse_query(caller_request))
        if not matched.served.route.socket:
            return self._answers.make(caller_request, matched)
        if method != "GET":
            raise MethodNotAllowed(method, ["GET"])
        return self._open_socket(request, self._answers.realtime, matched)

    def _open_socket(self, request: HTTPServerRequest, handler: type[SocketHandler], matched: MatchedRoute) -> Any:
        _check_bodiless(request)
        return self.get_handler_delegate(request, handler, {"services": self._services, "matched": matched})

    def _create_delegate(self, request: HTTPServerRequest, handler: type[GateHandler], **arguments: Any) -> Any:
        return self.get_handler_delegate(request, handler, {"gate": self._gate, **arguments})


def _check_bodiless_get(request: HTTPServerRequest) -> None:
    """Raise MethodNotAllowed unless this is a GET or HEAD, and TooLarge if it has a body."""
    if request.method not in ("GET", "HEAD"):
        raise MethodNotAllowed(request.method or "", ["GET", "HEAD"])
    _check_bodiless(request)


def _check_bodiless(request: HTTPServerRequest) -> None:
    if has_body(request.headers):
        raise TooLarge("This path takes no request body. Send the request without a body.")


def _to_caller_request(request: HTTPServerRequest) -> CallerRequest:
    assert request.connection is not None
    start_line = RequestStartLine(request.method or "", request.uri or "", request.version)
    return CallerRequest(request.connection, start_line, request.headers)


class _RequestDispatcher(HTTPMessageDelegate):
    """A delegate that waits for the head of a request, then passes the request to an `Exchange` or to Tornado's router."""

    __slots__ = ("_application", "_connection", "_server_connection", "_taker")

    def __init__(self, application: GateApplication, server_connection: object, connection: HTTPConnection) -> None:
        self._application = application
        self._server_connection = server_connection
        self._connection = connection
        self._taker: HTTPMessageDelegate = self

    def headers_received(
        self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders
    ) -> Awaitable[None] | None:
        assert isinstance(start_line, RequestStartLine)
        taker = self._application.create_exchange(self._connection, start_line, headers)
        if taker is None:
            limit = self._application.get_page_limit(start_line)
            self._connection.set_max_body_size(limit)  # type: ignore[attr-defined]  # both servers have it; the base class does not
            taker = Application.start_request(self._application, self._server_connection, self._connection)
        self._taker = taker
        return taker.headers_received(start_line, headers)

    def data_received(self, chunk: bytes) -> Awaitable[None] | None:
        return self._taker.data_received(chunk)

    def finish(self) -> None:
        self._taker.finish()

    def refuse(self, error: GateError) -> bool:
        """Send an error that the HTTP server has found in the body. Return False if no exchange has the request."""
        taker = getattr(self._taker, "delegate", self._taker)  # Tornado's router holds the exchange
        return isinstance(taker, Exchange) and taker.refuse(error)

    def on_connection_close(self) -> None:
        if self._taker is not self:
            self._taker.on_connection_close()


def make_app(services: Services, *, metrics: bool = True) -> Application:
    """Return the application that an HTTP server serves. `metrics` false omits /metrics, which then has a separate port."""
    public = (
        dict(PUBLIC_HANDLERS)
        if metrics
        else {path: handler for path, handler in PUBLIC_HANDLERS.items() if path != "/metrics"}
    )
    return GateApplication(services, public)


def make_metrics_app(services: Services) -> Application:
    """Return an application with /metrics only, for a separate port."""
    return GateApplication(services, {"/metrics": MetricsPortHandler})


def make_services(
    config: Config,
    host: PluginHost,
    keystore: KeyStore,
    metrics: Metrics,
    bucket: BucketStart | None = None,
    node: str = "",
) -> Services:
    """Create the parts of a process that serves `config`. `bucket` is for files in a bucket.

    `node` is the id of the node, with which the process announces itself in PostgreSQL; "" announces nothing.
    """
    data_dir = config.server.data_dir
    gate = Gate(config, host, keystore, metrics)
    state = make_state_stores(config, metrics)
    media, videos = open_media_stores(config, bucket, _make_bucket_reports(config, metrics))
    if config.media.bucket is not None:
        gate.readiness.notes.append(lambda: {"media_store": "away"} if media.is_away else {})
    fetcher = StoredFileFetcher(media)
    fetcher.memory.report = partial(metrics.admission.set_shared, "fetched_files")
    tasks = _make_task_service(config, gate, fetcher, videos, keystore)
    configuration = ConfigurationState()
    tapes = Tapes(data_dir, metrics.tapes)
    services = Services(
        gate=gate,
        calls=Calls(state.memory, fetcher, media),
        database=keystore.database,
        identity_provider=IdentityProvider(),
        accounts=Accounts(keystore.database, session_seconds=config.console.session_seconds),
        memory=state.memory,
        fetcher=fetcher,
        bodies=BodyBudget(
            config.limits.bodies_bytes, "limits.bodies_bytes", partial(metrics.admission.set_bodies, "memory")
        ),
        forms=BodyBudget(
            config.limits.forms_bytes, "limits.forms_bytes", partial(metrics.admission.set_bodies, "disk")
        ),
        turns=AccountShares(config.limits.turns_bytes, partial(metrics.admission.set_shared, "kept_turns")),
        rates=BodyRates(config.limits.body_bytes_per_second),
        media=media,
        tasks=tasks,
        secrets=ClientSecrets(state.secrets, config.realtime.client_secrets_per_account),
        sessions=OpenSessions(gate),
        sweeper=FileSweeper((media, tasks.files, tapes)),
        tapes=tapes,
        answers=AnswerHandlers(),
        health_checks=HealthChecks(gate, data_dir),
        configuration=configuration,
        alerting=Alerting(gate, fetcher, configuration),
        control=_make_control(gate, configuration, node),
    )
    services.apply(config)
    gate.readiness.checks += [services.bodies.explain_overload, services.forms.explain_overload]
    return services


def _make_control(gate: Gate, configuration: ConfigurationState, node: str) -> Control | None:
    if gate.database.is_file or not node:
        return None
    from tornado_gate.server.control.control import Control

    return Control(gate, configuration, node)


def _make_bucket_reports(config: Config, metrics: Metrics) -> BucketReports | None:
    if config.media.bucket is None:
        return None
    bucket = metrics.add_bucket_metrics()
    return BucketReports(bucket.count_failure, bucket.set_pending)


def _make_task_service(
    config: Config, gate: Gate, fetcher: Fetcher, files: MediaStore, keystore: KeyStore
) -> TaskService:
    sender = WebhookSender(fetcher, make_webhook_secrets(config, lambda: keystore.database))
    engine = TaskEngine(make_task_store(config), files, ProviderClient(gate, fetcher), config.videos, sender)
    TaskMetrics(gate, engine)
    engine.on_usage = partial(record_task, gate)
    engine.on_settle = partial(settle_task, gate)
    return TaskService(gate, engine, sender)
