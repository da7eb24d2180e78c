"""The server process: bind, serve, reload, drain; `supervisor` runs several processes on the same sockets."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tornado.web import Application

from tornado_gate import config as conf
from tornado_gate.accounts.keys import KeyStore
from tornado_gate.config.model import Config
from tornado_gate.config.stored import StoredConf
from tornado_gate.database.engine import Database, DatabaseError
from tornado_gate.http.server.front import HttpServer
from tornado_gate.http.server.limits import ConnectionLimits
from tornado_gate.http.server.pacing import Times
from tornado_gate.http.server.tornado_front import TornadoServer
from tornado_gate.pipeline.conf_secrets import collect_secrets
from tornado_gate.pipeline.snapshot import Snapshot
from tornado_gate.pipeline.snapshot_builder import build
from tornado_gate.plugins import failure_log, running_versions
from tornado_gate.plugins.host import PluginHost
from tornado_gate.server.app import make_app, make_metrics_app, make_services
from tornado_gate.server.front_refusals import GateRefusals
from tornado_gate.server.pages import load_pages
from tornado_gate.server.process import descriptors, heap, systemd
from tornado_gate.server.process.command_name import format_command
from tornado_gate.server.process.drain import HANDED_OVER_SECONDS, Drain, Listener
from tornado_gate.server.process.greeting import print_greeting
from tornado_gate.server.process.handover import Predecessor, Replacement
from tornado_gate.server.process.listeners import Listeners, ServeError, format_address, open_listeners, take_inherited
from tornado_gate.server.process.reloader import FileState, Reloader, get_file_state, log_warnings
from tornado_gate.server.process.supervisor import HANDED_OVER, STOP, Board, Supervisor
from tornado_gate.server.services import Services
from tornado_gate.storage.media_stores import BucketStart
from tornado_gate.storage.private import DataDirError, protect_data_dir
from tornado_gate.telemetry import logs
from tornado_gate.telemetry.metrics import Metrics
from tornado_gate.telemetry.metrics_folder import choose_parent, prepare_folder
from tornado_gate.types.value import Value, replace

if TYPE_CHECKING:
    import ssl

    from tornado_gate.server.process.certificates import CertificateWatch

log = logging.getLogger(__name__)

IDLE_SECONDS = 120.0
FIRST_HEAD_SECONDS = 30.0
"""Seconds for the head of the first request of a connection: until then the client is not identified."""
METRICS_CONNECTIONS = 64
"""Maximum number of connections to the port of the metrics."""
BODY_SECONDS = 600.0
LOAD_DELAY_SECONDS = 0.5
"""Seconds after the start of serving until deferred modules are imported, so that these imports do not delay the start."""


class Overrides(Value, frozen=True, kw_only=True):
    """Command-line flags, which override the file. None: not given."""

    host: str | None = None
    port: int | None = None
    processes: int | None = None
    data_dir: Path | None = None
    log_format: Literal["json", "text"] | None = None


def load_config(
    path: Path | None,
    overrides: Overrides,
    environment: Mapping[str, str] = os.environ,
    bound_host: str = "",
    *,
    at_rest: bool = False,
) -> Config:
    """Return the configuration of the file, or the default without a file, with `overrides` applied. Raises ConfigError.

    `bound_host` is the address on which this process listens already. With `at_rest`, raises FileBusy if another process has the
    file open for writing.
    """
    flags = {
        name: getattr(overrides, name) for name in Overrides.__struct_fields__ if getattr(overrides, name) is not None
    }
    return conf.load(path, environment, flags, bound_host, at_rest=at_rest) if path else conf.default_config(flags)


def _open_keystore(config: Config) -> KeyStore:
    """Open the database of conf. Raises FileFaults with its line, DatabaseError for the SQLite file.

    A node that starts with its copy of the configuration opens a database that is away later.
    """
    try:
        return KeyStore.open(config.server.data_dir, config.database)
    except DatabaseError as error:
        if isinstance(config.path, StoredConf) and config.path.alarm:
            return KeyStore(Database(config.server.data_dir, config.database))
        if not config.database:
            raise
        raise conf.FileFaults([(("database",), str(error))], config.path, config.lines) from error


def _carry_over(config: Config, keystore: KeyStore, *, is_hand_over: bool) -> None:
    if isinstance(config.path, StoredConf) and config.path.alarm:
        log.error(
            "the files of data_dir are not carried over to the database, which is away. Start again when it is back."
        )
        return
    from tornado_gate.server.process.carry_over import carry_over

    carry_over(config, keystore.database, is_hand_over=is_hand_over)


def run(path: Path | None, overrides: Overrides, say: Callable[[str], None] = print) -> None:
    """Serve until SIGTERM or SIGINT. Raises ConfigError or ServeError before it listens."""
    inherited, predecessor = take_inherited(os.environ), Predecessor(os.environ)
    if inherited is not None and inherited.is_activated:
        bound_host, bound_port = inherited.find_host()
        overrides = replace(overrides, host=bound_host, port=bound_port)
    heap.share_arena()
    state = get_file_state(path)
    config = load_config(path, overrides)
    server = config.server
    logging_ = logs.configure(server.log_level, choose_log_format(server.log_format), collect_secrets(config))
    if isinstance(path, StoredConf) and path.alarm:
        log.critical("%s", path.alarm)
    tls = load_certificate(config)
    try:
        protect_data_dir(server.data_dir)
    except DataDirError as error:
        raise ServeError(str(error)) from error
    keystore = _open_keystore(config)
    if config.tasks.store == "database" or config.state.store == "database":
        _carry_over(config, keystore, is_hand_over=inherited is not None and not inherited.is_activated)
    failure_log.clear(server.data_dir)
    count = server.processes or os.cpu_count() or 1
    metrics_folder = prepare_folder(choose_parent(server.data_dir)) if count > 1 else None
    host = PluginHost()
    first = check_plugins(config, host)
    log_warnings(first)
    bucket = prepare_media(config)
    node = secrets.token_hex(4)
    if count > 1:
        load_pages()
        host.load_deferred_modules()  # before the fork, so that the processes share the memory
        heap.reduce_garbage_collection()  # a collection would copy the shared pages
    listeners = open_listeners(server, inherited)
    board = Board(server.drain_delay + server.drain_seconds) if count > 1 else None
    process = ServingProcess(
        path=path,
        seen=state,
        overrides=overrides,
        config=config,
        host=host,
        keystore=keystore,
        scrubber=logging_.scrubber,
        listeners=listeners,
        board=board,
        bucket=bucket,
        node=node,
        tls=tls,
    )

    address = format_address(server, listeners)

    def ready() -> None:
        create_command = format_command("keys create --name NAME", path, overrides.data_dir)
        print_greeting(say, address, config, first, keystore, create_command)
        systemd.notify_ready()
        predecessor.report_serving()

    if board is None:
        run_loop(server.loop, process.serve(ready))
    else:
        supervisor = Supervisor(
            count,
            lambda report_ready: run_loop(server.loop, process.serve(report_ready)),
            listeners=listeners,
            flush=logging_.close,
            board=board,
        )
        supervisor.run(ready)
        if metrics_folder is not None:
            metrics_folder.remove()


def choose_log_format(configured: Literal["json", "text"] | None) -> Literal["json", "text"]:
    """Return the format of conf or the flag. Without one, people at a terminal read text, and programs JSON."""
    return configured or ("text" if sys.stderr.isatty() else "json")


def run_loop(kind: str, serving: Coroutine[Any, Any, None]) -> None:
    """Run `serving` to its end on the event loop that conf names; on asyncio's own loop when uvloop is not installed."""
    new_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
    if kind == "uvloop":
        try:
            import uvloop

            new_loop = uvloop.new_event_loop
        except ImportError:
            log.warning(
                "server.loop is uvloop, but uvloop is not installed: using the asyncio loop. Run: pip install uvloop"
            )
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(serving)


def check_plugins(config: Config, host: PluginHost) -> Snapshot:
    """Build the first snapshot, so that faults stop the start. Interrupts a plugin that hangs at import. Raises ConfigError.

    Plugins that the lock file beside the configuration does not allow are not imported.
    """
    host.use_lock(config.path)
    host.watchdog.start()
    try:
        return build(config, host)
    finally:
        host.watchdog.stop()


def load_certificate(config: Config) -> ssl.SSLContext | None:
    """Return the context of ``server.tls``, None if conf has none. Raises ConfigError."""
    if config.server.tls is None:
        return None
    from tornado_gate.server.process import certificates

    return certificates.load_certificate(config)


def prepare_media(config: Config) -> BucketStart | None:
    """Check the bucket for files, if conf has one. Raises ConfigError."""
    if config.media.bucket is None:
        return None
    from tornado_gate.storage.bucket_check import prepare_bucket

    return prepare_bucket(config)


class ServingProcess(Value, frozen=True, kw_only=True):
    """One serving process, run inside an event loop with the parts that `run` has prepared.

    `board` None: there is no supervisor. `bucket` None: files are in folders. `node` is
    the id of the gateway among the nodes of its database.
    `tls` is the certificate of the port.
    """

    path: Path | None
    seen: FileState
    overrides: Overrides
    config: Config
    host: PluginHost
    keystore: KeyStore
    scrubber: logs.Scrubber
    listeners: Listeners
    board: Board | None
    bucket: BucketStart | None
    node: str
    tls: ssl.SSLContext | None

    async def serve(self, ready: Callable[[], None]) -> None:
        """Serve until a signal (`drain`), then drain. `ready` is called when the process serves."""
        services = make_services(self.config, self.host, self.keystore, Metrics(), self.bucket, self.node)
        journal = failure_log.FailureLog(self.config.server.data_dir)
        self.host.on_failure.append(journal.note)
        await services.start()
        servers = await self._listen(services)
        reloader = Reloader(services, self._load, self.scrubber, self.path, self.seen)
        services.configuration.is_watched = True
        services.configuration.request_reload = reloader.request_reload
        drain = Drain(services, servers)
        self._handle_signals(services, drain)
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reloader.request_reload)
        watching = [asyncio.ensure_future(reloader.watch()), *await self._watch_versions(services, reloader)]
        if self.tls is not None:
            certificates = self._watch_certificate(servers[0], reloader)
            watching.append(asyncio.ensure_future(certificates.watch()))
        heap.reduce_garbage_collection()
        await asyncio.to_thread(running_versions.write, self.config.server.data_dir, self.host.versions)
        ready()
        resting = asyncio.ensure_future(self._load_deferred_modules())
        await drain.wait()
        for watch in watching:
            watch.cancel()
        resting.cancel()
        await drain.run()
        await services.close()
        await asyncio.to_thread(journal.write)

    async def _watch_versions(self, services: Services, reloader: Reloader) -> list[asyncio.Future[None]]:
        """Begin to watch a configuration in the database, and let `reloader` load its newest version."""
        if not isinstance(self.path, StoredConf):
            return []
        from tornado_gate.server.control.conf_watch import ConfWatch

        watch = ConfWatch(services, self.path, self.config.server.data_dir)
        await watch.keep_copy()
        reloader.find_path = lambda: watch.newest
        services.configuration.request_reload = watch.request_look
        if services.control is not None:
            services.control.on_configuration = watch.request_look
        return [asyncio.ensure_future(watch.watch(reloader))]

    def _watch_certificate(self, server: Listener, reloader: Reloader) -> CertificateWatch:
        """Return a watch of the certificate, which SIGHUP reloads together with the configuration."""
        from tornado_gate.server.process.certificates import CertificateWatch

        certificates = CertificateWatch(self.config, server.renew_certificate)

        def reload_all() -> None:
            reloader.request_reload()
            certificates.request_reload()

        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload_all)
        return certificates

    def _handle_signals(self, services: Services, drain: Drain) -> None:
        loop, board = asyncio.get_running_loop(), self.board
        if board is None:
            replacement = Replacement(self.listeners, loop, drain.hand_over)
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self._stop, drain, number, replacement)
            loop.add_signal_handler(signal.SIGUSR2, replacement.start)
            return
        services.gate.readiness.is_crash_loop = lambda: board.is_crash_loop
        loop.add_signal_handler(STOP, self._stop_child, services, drain, board)
        loop.add_signal_handler(HANDED_OVER, self._hand_over_child, services, drain, board)
        loop.add_reader(board.life, self._on_supervisor_end, services, drain, board)

    def _stop(self, drain: Drain, number: int, replacement: Replacement) -> None:
        replacement.cancel()
        drain.stop(number)

    def _stop_child(self, services: Services, drain: Drain, board: Board) -> None:
        server = services.gate.snapshot.config.server
        board.set_drain_seconds(server.drain_delay + server.drain_seconds)
        drain.stop(board.stop_signal)

    def _hand_over_child(self, services: Services, drain: Drain, board: Board) -> None:
        board.set_drain_seconds(HANDED_OVER_SECONDS + services.gate.snapshot.config.server.drain_seconds)
        drain.hand_over()

    def _on_supervisor_end(self, services: Services, drain: Drain, board: Board) -> None:
        """Stop after the supervisor was killed: otherwise its processes would keep the port forever."""
        asyncio.get_running_loop().remove_reader(board.life)
        log.error("the supervisor of this process has ended; this one stops too")
        drain.stop(signal.SIGTERM)

    async def _load_deferred_modules(self) -> None:
        """Import deferred modules in a thread; the event loop still runs every few milliseconds.

        The thread is a daemon, so that an import which hangs does not prevent the server from stopping.
        """
        await asyncio.sleep(LOAD_DELAY_SECONDS)
        threading.Thread(target=self._import_deferred_modules, name="imports", daemon=True).start()

    def _import_deferred_modules(self) -> None:
        self.host.load_deferred_modules()
        if self.config.console.enabled:
            load_pages()
        heap.retain_freed_memory()
        gc.freeze()

    def _load(self, path: Path | None) -> Config:
        return load_config(path, self.overrides, bound_host=self.config.server.host, at_rest=True)

    async def _listen(self, services: Services) -> list[Listener]:
        settings = self.config.server
        total = descriptors.limit_connections(settings.max_connections, descriptors.raise_limit())
        limits = ConnectionLimits(total, settings.max_connections_per_address or max(1, total // 2))
        refusals = GateRefusals(services.gate)
        app = make_app(services, metrics=not self.listeners.metrics)
        servers = [await self._start_listener(app, self.listeners.http, limits, refusals, self.tls)]
        if self.listeners.metrics:
            limits, app = ConnectionLimits(METRICS_CONNECTIONS), make_metrics_app(services)
            servers.append(await self._start_listener(app, self.listeners.metrics, limits, refusals))
        return servers

    async def _start_listener(
        self,
        app: Application,
        sockets: Sequence[socket.socket],
        limits: ConnectionLimits,
        refusals: GateRefusals,
        tls: ssl.SSLContext | None = None,
    ) -> Listener:
        times = Times(
            first_head_seconds=FIRST_HEAD_SECONDS,
            idle_seconds=IDLE_SECONDS,
            body_seconds=BODY_SECONDS,
            stall_seconds=self.config.server.stalled_reader_seconds,
        )
        if self.config.server.http == "tornado":
            tornados = TornadoServer(app, times=times, limits=limits, refusals=refusals, tls=tls)
            tornados.add_sockets(sockets)
            return tornados
        server = HttpServer(app, times=times, limits=limits, refusals=refusals, tls=tls)
        await server.listen(sockets)
        return server
