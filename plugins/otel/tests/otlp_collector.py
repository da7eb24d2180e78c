"""An OTLP/HTTP collector: a Tornado server, in a separate process, that parses the requests which it receives.

``GET /spans?count=N`` returns all spans as soon as there are N. ``python otlp_collector.py hang`` never responds to an
export.
"""

from __future__ import annotations

import asyncio
import gzip
import sys
from typing import Any

import orjson
from google.protobuf.json_format import MessageToDict
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
        self.headers: dict[str, str] = {}
        self.exports = 0


class Export(RequestHandler):
    def initialize(self, received: Received, hangs: bool) -> None:
        self.received, self.hangs = received, hangs

    async def post(self) -> None:
        received = self.received
        body = self.request.body
        if self.request.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        parsed = ExportTraceServiceRequest.FromString(body)
        async with received.changed:
            received.exports += 1
            received.headers = dict(self.request.headers)
            for resource in parsed.resource_spans:
                service = read_attributes(MessageToDict(resource.resource).get("attributes", []))
                for scope in resource.scope_spans:
                    received.spans += [describe(span, service) for span in scope.spans]
            received.changed.notify_all()
        if self.hangs:
            await asyncio.Event().wait()
        self.set_header("Content-Type", "application/x-protobuf")
        self.finish(ExportTraceServiceResponse().SerializeToString())


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

    async def get(self) -> None:
        count, received = int(self.get_argument("count", "0")), self.received
        async with received.changed:
            async with asyncio.timeout(20):
                await received.changed.wait_for(lambda: len(received.spans) >= count)
            self.finish(
                orjson.dumps({"spans": received.spans, "headers": received.headers, "exports": received.exports})
            )

    def delete(self) -> None:
        self.received.spans.clear()


async def main() -> None:
    received = Received()
    hangs = "hang" in sys.argv
    app = Application(
        [("/v1/traces", Export, {"received": received, "hangs": hangs}), ("/spans", Control, {"received": received})],
        log_function=lambda _: None,
    )
    server = HTTPServer(app)
    sockets = bind_sockets(0, "127.0.0.1")
    server.add_sockets(sockets)
    print(f"serving http://127.0.0.1:{sockets[0].getsockname()[1]}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
