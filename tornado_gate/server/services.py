"""Services: the parts of a serving process, which handlers and `dispatch` use to answer requests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tornado.httputil import HTTPMessageDelegate

from tornado_gate.account_shares import AccountShares
from tornado_gate.accounts.accounts import Accounts
from tornado_gate.accounts.identity_provider import IdentityProvider
from tornado_gate.admission.body_budget import BodyBudget
from tornado_gate.admission.body_rates import BodyRates
from tornado_gate.config.model import Config
from tornado_gate.database.engine import Database
from tornado_gate.errors import GateError
from tornado_gate.http.fetch import Fetcher
from tornado_gate.pipeline.calls import Calls
from tornado_gate.pipeline.gate import Gate
from tornado_gate.pipeline.health_checks import HealthChecks
from tornado_gate.pipeline.snapshot import Snapshot
from tornado_gate.realtime.client_secrets import ClientSecrets
from tornado_gate.realtime.sessions import OpenSessions
from tornado_gate.server.alerting import Alerting
from tornado_gate.server.process.configuration_state import ConfigurationState
from tornado_gate.storage.conversation_state import StateStore
from tornado_gate.storage.files import MediaStore
from tornado_gate.tapes.tapes import Tapes
from tornado_gate.tasks.service import TaskService
from tornado_gate.types.value import Value

if TYPE_CHECKING:
    from tornado_gate.server.control.control import Control

log = logging.getLogger(__name__)


class SweptFiles(Protocol):
    """Files that expire."""

    sweep_seconds: float

    async def sweep(self) -> None:
        """Delete expired files. Raises GateError."""

    async def close(self) -> None:
        """Finish background work."""


class HandlerChoice(Protocol):
    """The choice of the handler of requests for models: `make` creates it, from a request and its route.

    `realtime` is the class of handlers of realtime sessions.
    """

    make: Callable[[Any, Any], HTTPMessageDelegate]
    realtime: type[Any]

    def configure(self, services: Services, config: Config) -> None:
        """Choose the handler that a configuration needs."""


class FileSweeper:
    """A sweeper that deletes expired files periodically.

    Call `start` inside the event loop, and `close` before it ends.
    """

    def __init__(self, stores: Sequence[SweptFiles]) -> None:
        self._stores = stores
        self._sweeping: list[asyncio.Future[None]] = []

    def start(self) -> None:
        self._sweeping = [asyncio.ensure_future(self._sweep(store)) for store in self._stores]

    async def close(self) -> None:
        """Stop, and close the stores."""
        for sweeping in self._sweeping:
            sweeping.cancel()
        for store in self._stores:
            await store.close()

    async def _sweep(self, store: SweptFiles) -> None:
        while True:
            await asyncio.sleep(store.sweep_seconds)
            try:
                await store.sweep()
            except GateError as error:
                log.warning("could not delete expired files, will retry: %s", error.message)


class Services(Value, frozen=True, kw_only=True):
    """The parts of one serving process. Call `start` inside the event loop, and `close` before it ends.

    `control` None: the process shares its database with no other node.
    """

    gate: Gate
    calls: Calls
    database: Database
    accounts: Accounts
    identity_provider: IdentityProvider
    memory: StateStore
    fetcher: Fetcher
    bodies: BodyBudget
    forms: BodyBudget
    turns: AccountShares
    rates: BodyRates
    media: MediaStore
    tasks: TaskService
    secrets: ClientSecrets
    sessions: OpenSessions
    sweeper: FileSweeper
    tapes: Tapes
    answers: HandlerChoice
    health_checks: HealthChecks
    configuration: ConfigurationState
    alerting: Alerting
    control: Control | None = None

    async def start(self) -> None:
        """Start watching keys, plugins and the loop, deleting expired files, and running video tasks."""
        await self.gate.start()
        self.health_checks.start()
        self.sweeper.start()
        await self.tasks.engine.start()
        self.alerting.start()
        if self.control is not None:
            self.control.start()

    async def close(self) -> None:
        await self.alerting.close()
        await self.health_checks.close()
        await self.tasks.close()
        await self.sweeper.close()
        await self.fetcher.close()
        if self.control is not None:
            await self.control.close()
        await self.gate.close()
        self.accounts.close()
        await self.memory.close()
        await self.secrets.close()

    def close_sessions(self) -> None:
        """Open no new WebSocket sessions, and close the open ones, which do not end by themselves."""
        self.gate.readiness.is_closing = True
        self.sessions.shut_down()

    def replace(self, snapshot: Snapshot) -> None:
        """Apply a new snapshot to the gate and to the other parts."""
        self.gate.replace(snapshot)
        self.apply(snapshot.config)

    def apply(self, config: Config) -> None:
        """Apply the settings in `config` to each part."""
        self.alerting.apply(config)
        self.fetcher.rules = config.fetch
        self.fetcher.file_bytes = config.limits.file_bytes
        self.identity_provider.configure(config.oidc, config.network)
        self.accounts.sessions.lifetime_seconds = config.console.session_seconds
        self.bodies.total = config.limits.bodies_bytes
        self.forms.total = config.limits.forms_bytes
        self.turns.total = config.limits.turns_bytes
        self.rates.bytes_per_second = config.limits.body_bytes_per_second
        self.media.configure(config.media.max_bytes, config.media.seconds)
        self.tasks.engine.rules = config.videos
        self.secrets.limit = config.realtime.client_secrets_per_account
        self.tasks.files.configure(config.videos.max_bytes, config.videos.keep_seconds)
        self.tapes.apply(config.tapes)
        self.answers.configure(self, config)
