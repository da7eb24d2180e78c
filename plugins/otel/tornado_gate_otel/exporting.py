"""The export of spans, metrics and log records to the collector, each from a thread with a bounded queue. If the collector
is away, only these are lost.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
import uuid
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import Tracer

from tornado_gate import __version__
from tornado_gate_otel.settings import OtelSettings

if TYPE_CHECKING:
    from opentelemetry._logs import Logger

    from tornado_gate_otel.measurements import Measurements

Exporter = TypeVar("Exporter")

BATCH_SPANS: Final = 512
ATTRIBUTE_CHARACTERS: Final = 1000
LAST_SECONDS: Final = 3.0
"""The longest time for which the end of a process waits for the last spans, metrics or records."""


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
    """The tracer, the meter and the logger of one set of settings. Their threads start with the first request, in the
    process that serves.

    `measurements` and `logger` are None until then, and if conf has no endpoint for them.
    """

    measurements: Measurements | None = None
    logger: Logger | None = None

    def __init__(self, settings: OtelSettings) -> None:
        self._settings = settings
        self._tracer: Tracer | None = None
        self._lock = threading.Lock()
        self._providers: list[Any] = []
        self.ids = ReservedIds()

    @property
    def tracer(self) -> Tracer:
        if self._tracer is None:
            with self._lock:
                if self._tracer is None:
                    self._tracer = self._start()
        return self._tracer

    def _start(self) -> Tracer:
        settings = self._settings
        service = {"service.name": settings.service_name, **settings.resource}
        resource = Resource.create({"service.instance.id": str(uuid.uuid4()), **service})
        if settings.metrics_endpoint:
            self._start_metrics(resource)
        if settings.logs_endpoint:
            self._start_logs(resource)
        return self._start_traces(Resource.create(service))

    def _start_traces(self, resource: Resource) -> Tracer:
        settings = self._settings
        exporter = self._make_exporter(OTLPSpanExporter, settings.endpoint)
        processor = BatchSpanProcessor(exporter, **self._list_batch_options())
        provider = TracerProvider(
            sampler=ParentBased(TraceIdRatioBased(settings.sample)),
            resource=resource,
            id_generator=self.ids,
            span_limits=SpanLimits(max_span_attribute_length=ATTRIBUTE_CHARACTERS),
            shutdown_on_exit=False,
        )
        provider.add_span_processor(processor)
        self._end_with(provider)
        return provider.get_tracer("tornado_gate", __version__)

    def _start_metrics(self, resource: Resource) -> None:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

        from tornado_gate_otel.measurements import Measurements

        settings = self._settings
        reader = PeriodicExportingMetricReader(
            self._make_exporter(OTLPMetricExporter, settings.metrics_endpoint),
            export_interval_millis=settings.metrics_interval_seconds * 1000,
            export_timeout_millis=settings.timeout_seconds * 1000,
        )
        provider = MeterProvider([reader], resource, shutdown_on_exit=False)
        self._end_with(provider)
        self.measurements = Measurements(provider.get_meter("tornado_gate", __version__))

    def _start_logs(self, resource: Resource) -> None:
        from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
        from opentelemetry.sdk._logs import LoggerProvider
        from opentelemetry.sdk._logs.export import BatchLogRecordProcessor

        from tornado_gate_otel.records import GATEWAY_LOGGER, RecordHandler

        settings = self._settings
        exporter = self._make_exporter(OTLPLogExporter, settings.logs_endpoint)
        processor = BatchLogRecordProcessor(exporter, **self._list_batch_options())
        provider = LoggerProvider(resource, shutdown_on_exit=False)
        provider.add_log_record_processor(processor)
        self.logger = provider.get_logger("tornado_gate", __version__)
        handler = RecordHandler(self.logger, logging.getLevelNamesMapping()[settings.log_level.upper()])
        logging.getLogger(GATEWAY_LOGGER).addHandler(handler)
        weakref.finalize(self, logging.getLogger(GATEWAY_LOGGER).removeHandler, handler).atexit = False
        self._end_with(provider)

    def _make_exporter(self, kind: Callable[..., Exporter], endpoint: str) -> Exporter:
        """Return an exporter of spans, metrics or records, with the settings that all of them share."""
        settings = self._settings
        return kind(endpoint=endpoint, headers=dict(settings.headers), timeout=settings.timeout_seconds)

    def _list_batch_options(self) -> dict[str, Any]:
        """Return the options of the queue of spans, or of records."""
        settings = self._settings
        return {
            "max_queue_size": settings.queue_spans,
            "schedule_delay_millis": settings.interval_seconds * 1000,
            "max_export_batch_size": min(BATCH_SPANS, settings.queue_spans),
        }

    def _end_with(self, provider: Any) -> None:
        """Shut a provider down when a reload with other settings drops this object, or when the process ends.

        A reload does not wait for it.
        """
        if not self._providers:
            providers = self._providers
            weakref.finalize(self, _shut_down, providers).atexit = False
            atexit.register(_finish_export, weakref.ref(self), providers)
        self._providers.append(provider)


def _shut_down(providers: list[Any]) -> list[threading.Thread]:
    """Shut providers down, each in a thread, and return the threads."""
    threads = [threading.Thread(target=each.shutdown, name="otel-shutdown", daemon=True) for each in providers]
    for thread in threads:
        thread.start()
    return threads


def _finish_export(exporting: weakref.ref[Exporting], providers: list[Any]) -> None:
    """Send the last spans, metrics and records at the end of the process. If the collector hangs, wait at most
    `LAST_SECONDS`.
    """
    if exporting() is None:
        return
    ends_at = time.monotonic() + LAST_SECONDS
    for thread in _shut_down(providers):
        thread.join(max(0.0, ends_at - time.monotonic()))
