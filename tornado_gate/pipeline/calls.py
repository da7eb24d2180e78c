"""The only module that makes a `Call`: of requests, explanations, video tasks, health checks and inner models."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any, NamedTuple, Protocol

from tornado_gate.admission.estimates import make_chat_charge
from tornado_gate.config.model import Config
from tornado_gate.http.fetch import Fetcher
from tornado_gate.http.upstream import Pool
from tornado_gate.storage.conversation_state import SharedMemory
from tornado_gate.storage.files import MediaStore, SignedFileStore
from tornado_gate.types import Call, Caller, Charge, Meter, Progress, ResponseAdditions, Target, WireRequest
from tornado_gate.types.call import LazyExitStack, Memory, UrlFetcher
from tornado_gate.types.value import replace

NO_FACTS: Mapping[str, Any] = {}


class PlannedTarget(Protocol):
    """What a plan says about the calls of its requests: `plans.Plan`."""

    @property
    def model(self) -> str: ...
    @property
    def facts(self) -> Mapping[str, Any]: ...
    @property
    def target(self) -> Target: ...
    @property
    def pool(self) -> Pool: ...
    @property
    def operation(self) -> str: ...


class PlannedCaller(Protocol):
    """What the head of a request says about its calls: `direct_answer.KnownHead`."""

    format: str
    caller: Caller
    services: CallerServices
    strict: bool
    key_digest: bytes


class CallerServices(NamedTuple):
    """What the hooks of all requests of an account may use, whose files have addresses below one `public_url`."""

    memory: Memory
    files: SignedFileStore


class Calls:
    """Makes the calls of requests, with what their hooks may use of the process."""

    def __init__(self, memory: SharedMemory, fetcher: Fetcher, media: MediaStore) -> None:
        self._memory = memory
        self._fetcher = fetcher
        self._media = media

    def make(  # noqa: PLR0913  each is a field of the call
        self,
        config: Config,
        id: str,
        operation: str,
        format: str,
        caller: Caller,
        headers: Mapping[str, str],
        closing: AsyncExitStack,
        started: float,
        *,
        strict: bool = False,
        key_digest: bytes = b"",
        public_url: str = "",
    ) -> Call:
        """The call of a request. `headers` are without keys; `public_url` is the prefix of files' addresses.

        A request without a key stores and fetches nothing.
        """
        if not caller.id:
            return Call(
                id=id,
                operation=operation,
                format=format,
                caller=caller,
                dialect=config.dialect,
                headers=headers,
                closing=closing,
                started=started,
            )
        account = caller.account
        return Call(
            id=id,
            operation=operation,
            format=format,
            caller=caller,
            strict=strict,
            dialect=config.dialect,
            responses=config.responses,
            headers=headers,
            closing=closing,
            memory=self._memory.get_account_memory(account),
            fetcher=self._fetcher.for_request(account, closing),
            files=SignedFileStore(self._media, public_url, account),
            key_digest=key_digest,
            started=started,
        )

    def make_services(self, account: str, public_url: str) -> CallerServices:
        """Return what the hooks of an account's requests may use."""
        return CallerServices(
            self._memory.get_account_memory(account), SignedFileStore(self._media, public_url, account)
        )

    def make_planned(
        self, config: Config, id: str, caller: PlannedCaller, wire: WireRequest, closing: LazyExitStack, started: float,
        plan: PlannedTarget,
    ) -> Call:  # fmt: skip
        """The call of a request's only attempt, whose target is known before."""
        services, account = caller.services, caller.caller
        meter, charge = make_chat_charge(wire) if plan.operation == "chat" else (Meter(), Charge())
        return Call(
            id=id,
            operation=plan.operation,
            format=caller.format,
            model=plan.model,
            caller=account,
            target=plan.target,
            strict=caller.strict,
            dialect=config.dialect,
            responses=config.responses,
            headers=wire.headers,
            meter=meter,
            progress=Progress(model=plan.model, target=plan.target, attempts=1),
            charge=charge,
            closing=closing,
            pool=plan.pool,
            memory=services.memory,
            fetcher=self._fetcher.for_request(account.account, closing),
            files=services.files,
            facts=plan.facts,
            key_digest=caller.key_digest,
            started=started,
        )


def make_handshake_call(
    config: Config, id: str, operation: str, format: str, caller: Caller, headers: Mapping[str, str]
) -> Call:
    """The call of a WebSocket whose messages are requests, each with a call of its own."""
    return Call(
        id=id,
        operation=operation,
        format=format,
        caller=caller,
        dialect=config.dialect,
        headers=headers,
        responses=config.responses,
    )


def make_question(id: str, operation: str, format: str, model: str, caller: Caller) -> Call:
    """The call of a request that is not sent: it asks what would happen to such a request."""
    return Call(id=id, operation=operation, format=format, model=model, caller=caller)


def make_target_call(  # noqa: PLR0913  each is a field of the call
    id: str,
    operation: str,
    model: str,
    caller: Caller,
    target: Target,
    pool: Pool,
    closing: AsyncExitStack,
    *,
    fetcher: UrlFetcher | None = None,
    facts: Mapping[str, Any] = NO_FACTS,
) -> Call:
    """The call of the gateway itself to one target: of a video task, or of a health check."""
    return Call(
        id=id,
        operation=operation,
        format="",
        model=model,
        caller=caller,
        target=target,
        pool=pool,
        closing=closing,
        fetcher=fetcher,
        facts=facts,
    )


def make_inner_call(outer: Call, model: str, operation: str, closing: AsyncExitStack) -> Call:
    """The call to another model of the gateway for a request `outer`, whose caller pays for it."""
    return replace(
        outer,
        model=model,
        operation=operation,
        losses=[],
        meter=Meter(),
        progress=Progress(),
        charge=Charge(is_inner=True),
        additions=ResponseAdditions(),
        strict=False,
        closing=closing,
        notes=dict(outer.notes),
    )
