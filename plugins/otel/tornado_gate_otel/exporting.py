"""The export of ended spans to the collector, from a thread with a bounded queue. If the collector is away, only spans
are lost.
"""

from __future__ import annotations

import atexit
import threading
import weakref
from typing import Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import Tracer

from tornado_gate import __version__
from tornado_gate_otel.settings import OtelSettings

BATCH_SPANS: Final = 512
ATTRIBUTE_CHARACTERS: Final = 1000
LAST_SECONDS: Final = 3.0
"""The longest time for which the end of a process waits for the last spans."""


class ReservedIds(RandomIdGenerator):
    """Random ids. If an id was reserved for the next span of this thread, that span gets the id.

    The headers for an upstream are made before it is called, and must name the span that begins with the call.
    """

    def __init__(self) -> None:
        self._local = threading.local()

    def reserve_next(self, span_id: int) -> None:
        self._local.span_id = span_id

    def generate_span_id(self) -> int:
        reserved: int = getattr(self._local, "span_id", 0)
        self._local.span_id = 0
        return reserved or super().generate_span_id()


class Exporting:
    """The tracer of one set of settings. Its thread starts with the first span, in the process that serves."""

    def __init__(self, settings: OtelSettings) -> None:
        self._settings = settings
        self._tracer: Tracer | None = None
        self._lock = threading.Lock()
        self.ids = ReservedIds()

    @property
    def tracer(self) -> Tracer:
        if self._tracer is None:
            with self._lock:
                if self._tracer is None:
                    self._tracer = self._start_provider()
        return self._tracer

    def _start_provider(self) -> Tracer:
        settings = self._settings
        exporter = OTLPSpanExporter(
            endpoint=settings.endpoint, headers=dict(settings.headers), timeout=settings.timeout_seconds
        )
        processor = BatchSpanProcessor(
            exporter,
            max_queue_size=settings.queue_spans,
            schedule_delay_millis=settings.interval_seconds * 1000,
            max_export_batch_size=min(BATCH_SPANS, settings.queue_spans),
        )
        provider = TracerProvider(
            sampler=ParentBased(TraceIdRatioBased(settings.sample)),
            resource=Resource.create({"service.name": settings.service_name, **settings.resource}),
            id_generator=self.ids,
            span_limits=SpanLimits(max_span_attribute_length=ATTRIBUTE_CHARACTERS),
            shutdown_on_exit=False,
        )
        provider.add_span_processor(processor)
        # A reload with other settings drops this object. The thread of the old settings must end, without a delay of the
        # reload.
        finalizer = weakref.finalize(self, _shut_down, provider)
        finalizer.atexit = False
        atexit.register(_finish_export, weakref.ref(self), provider)
        return provider.get_tracer("tornado_gate", __version__)


def _shut_down(provider: TracerProvider) -> None:
    threading.Thread(target=provider.shutdown, name="otel-shutdown", daemon=True).start()


def _finish_export(exporting: weakref.ref[Exporting], provider: TracerProvider) -> None:
    """Send the last spans at the end of the process. If the collector hangs, wait at most `LAST_SECONDS`."""
    if exporting() is None:
        return
    thread = threading.Thread(target=provider.shutdown, name="otel-shutdown", daemon=True)
    thread.start()
    thread.join(LAST_SECONDS)
