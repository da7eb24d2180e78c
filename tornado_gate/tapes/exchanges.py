"""The recording of requests to upstreams: pools that tell a recorder what their HTTP client sends and receives.

A taped request gets these pools in place of the gateway's, so that other requests have no step more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from tornado_gate.codec.secret_words import list_secrets
from tornado_gate.http.client.connection import SizedBody
from tornado_gate.http.client.faults import HttpClientError
from tornado_gate.http.client.pool import HttpClient
from tornado_gate.http.client.request import HeaderPairs
from tornado_gate.http.client.response import HttpResponse
from tornado_gate.http.large_responses import LargeResponses
from tornado_gate.http.upstream import Pool
from tornado_gate.pipeline.provider_pools import ProviderPools
from tornado_gate.tapes.forms import CopiedBody
from tornado_gate.tapes.recorder import Recorder, redact_answer_headers, redact_headers, redact_url
from tornado_gate.targets.configured_provider import ConfiguredProvider
from tornado_gate.telemetry.redaction import SecretMask, make_mask
from tornado_gate.types import Progress


class RecordingPools:
    """The pools of one taped request. `progress` is the state of this request, with the target of its current attempt."""

    def __init__(self, pools: ProviderPools, recorder: Recorder, progress: Progress) -> None:
        self._pools = pools
        self._recorder = recorder
        self._progress = progress

    @property
    def large_responses(self) -> LargeResponses:
        return self._pools.large_responses

    def get_pool(self, provider: ConfiguredProvider) -> RecordingPool:
        """Return the pool of a provider entry, and record the target that will use it."""
        target, entry = self._progress.target, provider.entry
        self._recorder.note(
            "target",
            provider=entry.name,
            plugin=entry.plugin,
            model=target.model,
            upstream_model=target.upstream_model,
            base_url=redact_url(entry.base_url or target.base_url, None),
            settings={name: value for name, value in entry.settings.items() if not any(list_secrets(value, name))},
            headers=redact_headers(entry.headers, None),
            facts=dict(target.facts),
            operations=None if target.operations is None else sorted(target.operations),
        )
        return RecordingPool(self._pools.get_pool(provider), self._recorder, self._progress)


class RecordingPool:
    """A pool whose HTTP client records. Everything else is that of the pool."""

    def __init__(self, pool: Pool, recorder: Recorder, progress: Progress) -> None:
        self._pool = pool
        self._recorder = recorder
        self._progress = progress

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)

    def session(self) -> RecordingSession:
        return RecordingSession(self._pool.session(), self._recorder, make_mask(self._progress.target))

    def client(self) -> RecordingClient:
        return RecordingClient(self._pool.client(), self._recorder, make_mask(self._progress.target))


class RecordingClient:
    """An HTTP client that records its requests and responses."""

    def __init__(self, client: HttpClient, recorder: Recorder, mask: SecretMask | None) -> None:
        self._client = client
        self._recorder = recorder
        self._mask = mask

    def begin_post(self, *_: Any) -> None:
        """Return None: a recorded request is always sent by `request`."""

    async def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | SizedBody | None = None,
        usual: HeaderPairs = (),
        *,
        exact: bool = False,
    ) -> HttpResponse:
        """Send a request as `HttpClient.request` does."""
        recorder, mask, number = self._recorder, self._mask, self._recorder.begin_exchange()
        sent = {name: value for name, value in usual if name.lower() not in {own.lower() for own in headers}}
        described: dict[str, Any] = {
            "exchange": number,
            "method": method,
            "url": redact_url(url, mask),
            "at": recorder.read_clock(),
        }
        described["headers"] = redact_headers({**headers, **sent}, mask)
        copied = None if body is None or isinstance(body, bytes) else CopiedBody(body, recorder.room)
        if copied is None:
            recorder.note_data("upstream_request", body if isinstance(body, bytes) else b"", mask, **described)
        fault = ""
        try:
            answer = await self._client.request(method, url, headers, copied or body, usual, exact=exact)
        except (HttpClientError, ValueError, asyncio.CancelledError) as error:
            fault = _describe_fault(error, mask)
            raise
        finally:
            if copied is not None:
                recorder.note_data("upstream_request", bytes(copied.copy), mask, size=copied.length, **described)
            if fault:
                recorder.note("upstream_end", exchange=number, fault=fault)
        headers_shown = redact_answer_headers(answer.headers, mask)
        recorder.note("upstream_head", exchange=number, status=answer.status, headers=headers_shown)
        answer.__class__ = RecordedResponse
        assert isinstance(answer, RecordedResponse)
        answer.record(recorder, mask, number)
        return answer


class RecordingSession:
    """A session of aiohttp that records handshakes of WebSockets."""

    def __init__(self, session: Any, recorder: Recorder, mask: SecretMask | None) -> None:
        self._session = session
        self._recorder = recorder
        self._mask = mask

    async def get(self, url: str, *, headers: Mapping[str, str], **rest: Any) -> Any:
        """Send a handshake as ``aiohttp.ClientSession.get``."""
        recorder, mask, number = self._recorder, self._mask, self._recorder.begin_exchange()
        shown = redact_headers(headers, mask)
        recorder.note_data(
            "upstream_request", b"", method="GET", exchange=number, url=redact_url(url, mask), headers=shown
        )
        answer = await self._session.get(url, headers=headers, **rest)
        answered = redact_answer_headers({str(name): value for name, value in answer.headers.items()}, mask)
        recorder.note("upstream_head", exchange=number, status=answer.status, headers=answered)
        return answer


class RecordedResponse(HttpResponse):
    """A response that tells a recorder what its reader takes. The client creates it as a plain `HttpResponse`."""

    _recorder: Recorder | None = None
    _mask: SecretMask | None = None
    _number = 0

    def record(self, recorder: Recorder, mask: SecretMask | None, number: int) -> None:
        """Record from now on, as the response to the exchange `number`."""
        self._recorder, self._mask, self._number = recorder, mask, number

    def _take_available(self) -> bytes:
        try:
            data = super()._take_available()
        except HttpClientError as fault:
            self._end_recording(_describe_fault(fault, self._mask))
            raise
        if data and self._recorder is not None:
            self._recorder.note_data("upstream_chunk", data, self._mask, exchange=self._number)
        if self.ended:
            self._end_recording("")
        return data

    def close(self) -> None:
        """Stop reading, as `HttpResponse.close`."""
        self._end_recording("" if self.ended else "closed by the gateway")
        super().close()

    def _end_recording(self, fault: str) -> None:
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            recorder.note("upstream_end", exchange=self._number, fault=fault)


def _describe_fault(error: BaseException, mask: SecretMask | None) -> str:
    text = f"{type(error).__name__}: {error}"
    return text if mask is None else mask.mask_text(text)
