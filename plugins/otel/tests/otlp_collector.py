"""An OTLP/HTTP collector: a Tornado server, in a separate process, that parses the requests which it receives.

``GET /spans?count=N`` returns all spans as soon as there are N. ``GET /records?count=N`` does so for log records, and
``GET /points?count=N`` for the points of metrics, of which only the last one with the same attributes is kept.
``python otlp_collector.py hang`` never responds to an export.
"""

from __future__ import annotations

import asyncio
import gzip
import sys
from typing import Any

import orjson
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler


class Received:
    def __init__(self) -> None:
        self.changed = asyncio.Condition()
        self.spans: list[dict[str, Any]] = []
        self.records: list[dict[str, Any]] = []
        self.points: dict[str, dict[str, Any]] = {}
        self.headers: dict[str, str] = {}
        self.exports = 0


class Export(RequestHandler):
    """A handler of an export. Each subclass parses one kind of request."""

    kind: Any
    answer: Any

    def initialize(self, received: Received, hangs: bool) -> None:
        self.received, self.hangs = received, hangs

    async def post(self) -> None:
        received = self.received
        body = self.request.body
        if self.request.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        parsed = self.kind.FromString(body)
        async with received.changed:
            received.exports += 1
            received.headers = dict(self.request.headers)
            self.keep(parsed)
            received.changed.notify_all()
        if self.hangs:
            await asyncio.Event().wait()
        self.set_header("Content-Type", "application/x-protobuf")
        self.finish(self.answer().SerializeToString())

    def keep(self, parsed: Any) -> None:
        raise NotImplementedError


class ExportSpans(Export):
    kind, answer = ExportTraceServiceRequest, ExportTraceServiceResponse

    def keep(self, parsed: Any) -> None:
        for resource in parsed.resource_spans:
            service = read_attributes(MessageToDict(resource.resource).get("attributes", []))
            for scope in resource.scope_spans:
                self.received.spans += [describe(span, service) for span in scope.spans]


class ExportMetrics(Export):
    kind, answer = ExportMetricsServiceRequest, ExportMetricsServiceResponse

    def keep(self, parsed: Any) -> None:
        for resource in parsed.resource_metrics:
            service = read_attributes(MessageToDict(resource.resource).get("attributes", []))
            for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
                for point in (*metric.histogram.data_points, *metric.sum.data_points):
                    kept = describe_point(metric, point, service)
                    self.received.points[f"{kept['name']} {sorted(kept['attributes'].items())}"] = kept


class ExportLogs(Export):
    kind, answer = ExportLogsServiceRequest, ExportLogsServiceResponse

    def keep(self, parsed: Any) -> None:
        for resource in parsed.resource_logs:
            service = read_attributes(MessageToDict(resource.resource).get("attributes", []))
            for record in (record for scope in resource.scope_logs for record in scope.log_records):
                self.received.records.append(describe_record(record, service))


def describe_point(metric: Any, point: Any, service: dict[str, Any]) -> dict[str, Any]:
    is_histogram = metric.HasField("histogram")
    return {
        "name": metric.name,
        "unit": metric.unit,
        "attributes": read_attributes(MessageToDict(point).get("attributes", [])),
        "value": point.sum if is_histogram else (point.as_int or point.as_double),
        "count": point.count if is_histogram else None,
        "bounds": list(point.explicit_bounds) if is_histogram else None,
        "monotonic": None if is_histogram else metric.sum.is_monotonic,
        "service": service,
    }


def describe_record(record: Any, service: dict[str, Any]) -> dict[str, Any]:
    return {
        "severity": record.severity_text,
        "number": record.severity_number,
        "body": record.body.string_value,
        "event": record.event_name,
        "trace": record.trace_id.hex(),
        "span": record.span_id.hex(),
        "attributes": read_attributes(MessageToDict(record).get("attributes", [])),
        "service": service,
    }


def describe(span: Any, service: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": span.name,
        "kind": {2: "server", 3: "client"}.get(span.kind, span.kind),
        "trace": span.trace_id.hex(),
        "id": span.span_id.hex(),
        "parent": span.parent_span_id.hex(),
        "state": span.trace_state,
        "start": span.start_time_unix_nano,
        "end": span.end_time_unix_nano,
        "failed": span.status.code == 2,
        "attributes": read_attributes(MessageToDict(span).get("attributes", [])),
        "service": service,
    }


def read_attributes(pairs: list[dict[str, Any]]) -> dict[str, Any]:
    return {pair["key"]: read_value(pair["value"]) for pair in pairs}


def read_value(value: dict[str, Any]) -> Any:
    ((kind, content),) = value.items()
    if kind == "arrayValue":
        return [read_value(item) for item in content["values"]]
    return int(content) if kind == "intValue" else content


class Control(RequestHandler):
    def initialize(self, received: Received) -> None:
        self.received = received

    async def get(self, kind: str) -> None:
        count, received = int(self.get_argument("count", "0")), self.received
        async with received.changed:
            async with asyncio.timeout(60):
                await received.changed.wait_for(lambda: len(getattr(received, kind)) >= count)
            kept = getattr(received, kind)
            values = list(kept.values()) if isinstance(kept, dict) else kept
            self.finish(orjson.dumps({kind: values, "headers": received.headers, "exports": received.exports}))

    def delete(self, _: str) -> None:
        for kept in (self.received.spans, self.received.records, self.received.points):
            kept.clear()


async def main() -> None:
    received = Received()
    hangs = "hang" in sys.argv
    app = Application(
        [
            *(
                (f"/v1/{name}", handler, {"received": received, "hangs": hangs})
                for name, handler in (("traces", ExportSpans), ("metrics", ExportMetrics), ("logs", ExportLogs))
            ),
            ("/(spans|records|points)", Control, {"received": received}),
        ],
        log_function=lambda _: None,
    )
    server = HTTPServer(app)
    sockets = bind_sockets(0, "127.0.0.1")
    server.add_sockets(sockets)
    print(f"serving http://127.0.0.1:{sockets[0].getsockname()[1]}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
