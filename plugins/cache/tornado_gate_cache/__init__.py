"""An exact cache around `call_upstream`. It responds to a request that equals an earlier one, from memory or a shared store.

The cache stores the upstream's response to one outgoing request, so that both lanes and all wire formats use it in the
same way: a hit passes the same translation as the upstream's own response. A response is stored when its request has
ended completely. Errors and parts of a stream are never stored. The request header `x-gate-cache` accepts ``no-cache``
and ``no-store``. The response header is ``hit``, ``miss`` or ``bypass``.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Coroutine, Generator
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from tornado_gate import PluginEntry, plugin_impl, provider_impl
from tornado_gate.errors import InvalidField
from tornado_gate.streams.stages import add_step
from tornado_gate.types import BufferedBody, Call, Request, UpstreamRequest, UpstreamResponse
from tornado_gate_cache.keys import make_key, may_cache
from tornado_gate_cache.metrics import get_metrics
from tornado_gate_cache.recording import Recording, RecordStep
from tornado_gate_cache.settings import CacheSettings, read_settings
from tornado_gate_cache.store import Answer, AnswerStore

if TYPE_CHECKING:
    from tornado_gate_cache.shared_store import SharedAnswerStore

HEADER: Final = "x-gate-cache"
NO_CACHE: Final = "no-cache"
NO_STORE: Final = "no-store"
WISHES: Final = frozenset({NO_CACHE, NO_STORE})
UNSTORED_HEADERS: Final = frozenset(
    {"connection", "content-length", "date", "keep-alive", "set-cookie", "transfer-encoding"}
)

_stores: WeakValueDictionary[str, AnswerStore] = WeakValueDictionary()
"""The stores of this process by settings. A reload that does not change the settings keeps the responses."""


def _find_store(settings: CacheSettings) -> AnswerStore:
    name = f"{settings!r} {settings.store}"  # `repr` masks a value of the environment
    store = _stores.get(name)
    if store is None:
        store = AnswerStore(settings.max_bytes, settings.max_entries, settings.keep_seconds, time.monotonic)
        _stores[name] = store
    return store


_shared_stores: WeakValueDictionary[str, SharedAnswerStore] = WeakValueDictionary()
"""The same for stores in Redis or Valkey."""


def _find_shared_store(settings: CacheSettings) -> SharedAnswerStore | None:
    if not settings.store:
        return None
    from tornado_gate_cache.shared_store import SharedAnswerStore

    name = f"{settings.store} {settings.keep_seconds} {settings.max_bytes}"
    store = _shared_stores.get(name)
    if store is None:
        _shared_stores[name] = store = SharedAnswerStore(settings.store, settings.keep_seconds, settings.max_bytes)
    return store


class Cache:
    """The plugin with the settings of one configuration."""

    def __init__(self, settings: CacheSettings | None = None) -> None:
        self._settings = settings or CacheSettings()
        self._store = _find_store(self._settings)
        self._shared_store = _find_shared_store(self._settings)

    @plugin_impl
    def configure_plugin(self, entry: PluginEntry) -> Cache:
        return Cache(read_settings(entry.settings))

    @provider_impl(wrapper=True)
    def translate_request(self, call: Call, request: Request) -> Generator[None, Any, Any]:
        """Record whether the cache may serve the request, because `call_upstream` does not receive it."""
        outgoing = yield
        rule = self._settings.caches.get(call.operation)
        if rule is not None and call.caller.id:  # the gateway's own health checks have no caller
            call.notes[self] = may_cache(rule, request)
        return outgoing

    @provider_impl(
        wrapper=True, trylast=True
    )  # innermost: after a hit, no coroutine of another wrapper stays unawaited
    def call_upstream(self, call: Call, outgoing: UpstreamRequest) -> Generator[None, Any, Any]:
        pending = yield
        usable = call.notes.get(self)
        if usable is None or not inspect.iscoroutine(pending):
            return pending
        return self._serve_request(call, outgoing, pending, usable=usable)

    async def _serve_request(
        self,
        call: Call,
        outgoing: UpstreamRequest,
        pending: Coroutine[Any, Any, UpstreamResponse],
        *,
        usable: bool,
    ) -> UpstreamResponse:
        try:
            wishes = read_wishes(call.headers.get(HEADER, ""))
            owner = call.caller.account if self._settings.scope == "account" else call.caller.id
            usable = usable and NO_STORE not in wishes
            key = await call.run(make_key, call, outgoing, owner) if usable else None
            if key is None:
                _report_result(call, "bypass")
                return await pending
            if NO_CACHE in wishes:
                answer = None
            elif self._shared_store is not None:
                answer = await self._shared_store.find(call.caller.account, key)
            else:
                answer = self._store.find(call.caller.account, key)
            if answer is not None:
                call.progress.record_cache(is_hit=True)
                _report_result(call, "hit", max(0.0, (self._shared_store or self._store).now - answer.stored))
                return _make_response(call, answer)
            call.progress.record_cache(is_hit=False)
            _report_result(call, "miss")
            return self._record_response(call, key, await pending)
        finally:
            pending.close()  # a hit has not started it

    def _record_response(self, call: Call, key: bytes, incoming: UpstreamResponse) -> UpstreamResponse:
        """Return the response. Its body is stored when the request has ended completely."""
        if incoming.status != 200 or incoming.context is not None:
            return incoming
        headers = {name: value for name, value in incoming.headers.items() if name not in UNSTORED_HEADERS}
        recording = Recording(self._store, call, key, headers, self._settings.answer_bytes, self._shared_store)
        call.when_ended(recording.end)
        if isinstance(incoming.chunks, BufferedBody):
            recording.add([incoming.chunks.data])
            return incoming
        return incoming.replace(add_step(incoming.chunks, RecordStep(recording)))


def read_wishes(header: str) -> frozenset[str]:
    """Return the directives in the request's header. Raises InvalidField."""
    if not header:
        return frozenset()
    wishes = frozenset(part.strip().lower() for part in header.split(","))
    if not wishes <= WISHES:
        raise InvalidField(HEADER, f"The header '{HEADER}' is invalid. Allowed are '{NO_CACHE}' and '{NO_STORE}'.")
    return wishes


def _report_result(call: Call, result: str, age: float = 0.0) -> None:
    """Count the result, and report it to the caller. A request with several parts is a hit if all of them are."""
    get_metrics().requests.labels(result).inc()
    if result == "hit" and call.progress.cached:
        call.add_response_header("Age", str(int(age)))
    else:
        call.remove_response_header("Age")
    call.add_response_header("X-Gate-Cache", "miss" if call.progress.cached is False else result)


def _make_response(call: Call, answer: Answer) -> UpstreamResponse:
    return UpstreamResponse(chunks=BufferedBody(answer.body), headers=answer.headers, provider=call.target.provider)
