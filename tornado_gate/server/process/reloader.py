"""The reload of a changed configuration in a running process.

It starts on SIGHUP, and after a change of the file or of the plugins' lock file. A file is read when it is complete. No process
may have it open for writing (`config.written`). Unless SIGHUP declares it complete, it must also be unchanged for
SETTLED_SECONDS, because some writers open it several times.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tornado_gate import config as conf
from tornado_gate.config.model import Config
from tornado_gate.config.stored import StoredConf, get_number
from tornado_gate.config.written import is_unwritten
from tornado_gate.errors import ConfigError
from tornado_gate.pipeline.conf_secrets import collect_secrets
from tornado_gate.pipeline.pricing import load_default_prices
from tornado_gate.pipeline.snapshot import Snapshot
from tornado_gate.pipeline.snapshot_builder import build
from tornado_gate.plugins import running_versions
from tornado_gate.plugins.lock import get_lock_path
from tornado_gate.server.process.heap import shorten_garbage_collection
from tornado_gate.server.services import Services
from tornado_gate.telemetry import logs
from tornado_gate.types.value import replace

log = logging.getLogger(__name__)

WATCH_SECONDS = 1.0
RELOAD_SECONDS = 120.0
LOOK_SECONDS = 0.25
"""The time between two looks at a file that is written."""
SETTLED_SECONDS = 1.0
LONG_SECONDS = 30.0
"""The time after which a file that is still being written is reported."""
FIXED_SETTINGS = (
    "host",
    "port",
    "processes",
    "data_dir",
    "metrics_host",
    "metrics_port",
    "log_format",
    "loop",
    "http",
    "tls",
    "stalled_reader_seconds",
    "max_connections",
    "max_connections_per_address",
)
"""Keys of the section ``server`` that a reload does not change."""

FileState = tuple[tuple[int, ...], ...]
UNKNOWN: FileState = ((-1, -1, -1),)
"""A state that differs from the state of all files."""


def log_warnings(snapshot: Snapshot) -> None:
    """Log settings of the configuration that are valid but unsafe."""
    config = snapshot.config
    for line in conf.describe(snapshot.plugins.warnings, config.path, config.lines):
        log.warning("%s", line)


def get_file_state(path: Path | None) -> FileState:
    """Return a value that changes when the file or the plugins' lock file beside it changes, appears or disappears."""
    states: list[tuple[int, ...]] = []
    for file in (path, get_lock_path(path)):
        try:
            status = file.stat() if file else None
        except OSError:
            status = None
        states.append((status.st_mtime_ns, status.st_size, status.st_ino) if status else ())
    return tuple(states)


class Reloader:
    """The reload of a changed configuration. If it is faulty, the faults are logged and the old one stays.

    `find_path` returns the path or the version that the next reload gives to `load`.
    """

    def __init__(
        self,
        services: Services,
        load: Callable[[Path | None], Config],
        scrubber: logs.Scrubber,
        path: Path | None,
        state: FileState,
    ) -> None:
        self._services = services
        self._gate = services.gate
        self._seen = state
        self._load = load
        self._scrubber = scrubber
        self._path = path
        self.find_path: Callable[[], Path | None] = lambda: path
        self._asked = asyncio.Event()

    def request_reload(self) -> None:
        """Reload soon, as SIGHUP does."""
        self._asked.set()

    async def watch(self) -> None:
        """Reload after `request_reload`, and when the file has changed."""
        self._services.configuration.is_watched = True
        while True:
            try:
                async with asyncio.timeout(WATCH_SECONDS):
                    await self._asked.wait()
            except TimeoutError:
                pass
            now = await asyncio.to_thread(get_file_state, self._path)
            if self._asked.is_set() or now != self._seen:
                self._seen = await self._wait_until_written(now)
                self._asked.clear()
                await self.reload()

    async def _wait_until_written(self, state: FileState) -> FileState:
        """Wait until no process writes the file. Return its state."""
        if isinstance(self.find_path(), StoredConf):
            return state
        begun = since = time.monotonic()
        is_reported = False
        while True:
            unwritten = await asyncio.to_thread(is_unwritten, self._path)
            now = await asyncio.to_thread(get_file_state, self._path)
            if now != state:
                state, since = now, time.monotonic()
            if unwritten is not False:
                is_settled = time.monotonic() - since >= SETTLED_SECONDS
                if is_settled or (unwritten and self._asked.is_set()):
                    return state
            if not is_reported and time.monotonic() - begun >= LONG_SECONDS:
                is_reported = True
                log.warning("%s is being written; it is read when it is closed and does not change", self._path)
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await (asyncio.sleep(LOOK_SECONDS) if self._asked.is_set() else self._asked.wait())

    async def reload(self) -> bool:
        """Build a new snapshot and apply it. Return whether it was applied."""
        try:
            async with asyncio.timeout(RELOAD_SECONDS):
                snapshot = await asyncio.to_thread(self._build_aside)
        except conf.FileBusy:
            self._seen = UNKNOWN  # the file was opened again, so check it again
            return False
        except ConfigError as error:
            faults = error.report() if isinstance(error, conf.FileFaults) else [str(error)]
            for line in faults:
                log.error("configuration not reloaded: %s", line)
        except TimeoutError:
            faults = [f"no result in {RELOAD_SECONDS:.0f} s. Check whether a plugin hangs."]
            log.error("configuration not reloaded: %s", faults[0])
        except Exception:
            faults = ["The gateway could not read it. The log of the gateway has the reason."]
            log.exception("configuration not reloaded")
        else:
            self._put_in_force(snapshot)
            return True
        self._gate.metrics.process.count_reload(False)
        self._services.configuration.reject(
            [self._scrubber.scrub_text(line) for line in faults], get_number(self.find_path())
        )
        return False

    def _build_aside(self) -> Snapshot:
        """Build the snapshot in a thread, where a long garbage collection would block the event loop too."""
        with shorten_garbage_collection():
            return self._build()

    def _build(self) -> Snapshot:
        config = self._load(self.find_path())
        conf.check_lost_sections(self._gate.snapshot.config, config)
        config = self._keep_fixed_settings(config)
        host = self._gate.host
        host.discover()
        host.use_lock(config.path)
        snapshot = build(config, host, self._gate.snapshot.number + 1)
        host.load_deferred_modules()
        load_default_prices(snapshot)
        # In this thread: the spellings of 10,000 keys take a tenth of a second.
        self._scrubber.replace(collect_secrets(self._gate.snapshot.config) | collect_secrets(config))
        running_versions.write(config.server.data_dir, host.versions)
        return snapshot

    def _keep_fixed_settings(self, config: Config) -> Config:
        """Return `config` with the running values of settings that a reload cannot change, and log the differing ones."""
        running = self._gate.snapshot.config.server
        kept = {name: getattr(running, name) for name in FIXED_SETTINGS}
        changed = [f"server.{name}" for name, value in kept.items() if getattr(config.server, name) != value]
        store = self._gate.snapshot.config.limits.store
        if config.limits.store != store:
            changed.append("limits.store")
            config = replace(config, limits=replace(config.limits, store=store))
        bucket = self._gate.snapshot.config.media.bucket
        if config.media.bucket != bucket:
            changed.append("media.store and the keys of its bucket")
            config = replace(config, media=replace(config.media, bucket=bucket))
        for name in ("tasks", "state"):
            section = getattr(self._gate.snapshot.config, name)
            new = getattr(config, name)
            if new != section:
                changed += [
                    f"{name}.{key}" for key in section.__struct_fields__ if getattr(new, key) != getattr(section, key)
                ]
                config = replace(config, **{name: section})
        if changed:
            log.warning("restart the gateway to apply changed settings: %s", ", ".join(changed))
        return replace(config, server=replace(config.server, **kept))

    def _put_in_force(self, snapshot: Snapshot) -> None:
        new = snapshot.config
        logging.getLogger().setLevel(new.server.log_level.upper())
        self._services.replace(snapshot)
        self._gate.metrics.process.count_reload(True)
        self._services.configuration.apply()
        log_warnings(snapshot)
        for name, update in self._gate.host.updates.items():
            log.warning("plugin '%s': %s", name, update, extra={"fields": {"plugin": name}})
        log.info("configuration %d is in force: %d models", snapshot.number, len(new.models))
