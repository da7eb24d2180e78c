"""The only module that makes a `Call`: for requests, explanations, video tasks, health checks and inner models."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any, NamedTuple, Protocol

from tornado_gate.admission.estimates import make_chat_charge
from tornado_gate.config.model import Config
from tornado_gate.http.fetch import Fetcher
from tornado_gate.http.fetch.fetcher import RequestFetcher
from tornado_gate.http.upstream import Pool
from tornado_gate.storage.conversation_state import StateStore
from tornado_gate.storage.files import MediaStore, SignedFileStore
from tornado_gate.types import Call, Caller, Charge, Meter, Progress, ResponseAdditions, Target, WireRequest
from tornado_gate.types.call import LazyExitStack, Memory, UrlFetcher
from tornado_gate.types.value import replace

NO_FACTS: Mapping[str, Any] = {}


class PlannedTarget(Protocol):
    """The fields of a plan (`plans.Plan`) that the calls of its requests need."""

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
    @property
    def failover(self) -> bool | None: ...


class PlannedCaller(Protocol):
    """The fields of a request's head (`direct_answer.KnownHead`) that its calls need."""

    format: str
    caller: Caller
    services: CallerServices
    strict: bool
    key_digest: bytes


class CallerServices(NamedTuple):
    """The services that hooks of an account's requests may use. The addresses of its files begin with `public_url`."""

    memory: Memory
    files: SignedFileStore


class Calls:
    """A factory for the calls of requests. It adds the services of the process that their hooks may use."""

    def __init__(self, memory: StateStore, fetcher: Fetcher, media: MediaStore) -> None:
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
        """Return the call of a request. `headers` contain no keys; `public_url` is the prefix of files' addresses.

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
        """Return the services that the hooks of an account's requests may use."""
        return CallerServices(
            self._memory.get_account_memory(account), SignedFileStore(self._media, public_url, account)
        )

    def make_planned(
        self, config: Config, id: str, caller: PlannedCaller, wire: WireRequest, closing: LazyExitStack, started: float,
        plan: PlannedTarget,
    ) -> Call:  # fmt: skip
        """Return the call of a request's only attempt. Its target is known in advance."""
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
            fetcher=RequestFetcher(self._fetcher, account.account, closing),
            files=services.files,
            facts=plan.facts,
            key_digest=caller.key_digest,
            failover=plan.failover,
            started=started,
        )


def make_handshake_call(
    config: Config, id: str, operation: str, format: str, caller: Caller, headers: Mapping[str, str]
) -> Call:
    """Return the call of a WebSocket whose messages are requests. Each message also gets a separate call."""
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
    """Return the call of a request that is only explained, not sent."""
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
    """Return a call that the gateway itself makes to one target: for a video task or a health check."""
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
    """Return a call to another model of the gateway for the request `outer`. The caller of `outer` pays for it."""
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
