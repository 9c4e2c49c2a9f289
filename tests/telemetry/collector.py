"""A collector of OTLP over HTTP in this process, and a receiver of callbacks: real servers."""

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span as Exported


@dataclass(frozen=True)
class Span:
    """A span as it came, with the text of its ids."""

    exported: Exported
    resource: dict[str, Any]

    @property
    def name(self) -> str:
        return self.exported.name

    @property
    def kind(self) -> str:
        return Exported.SpanKind.Name(self.exported.kind).removeprefix("SPAN_KIND_")

    @property
    def trace(self) -> str:
        return self.exported.trace_id.hex()

    @property
    def id(self) -> str:
        return self.exported.span_id.hex()

    @property
    def parent(self) -> str:
        return self.exported.parent_span_id.hex()

    @property
    def links(self) -> list[tuple[str, str]]:
        return [(link.trace_id.hex(), link.span_id.hex()) for link in self.exported.links]

    @property
    def is_error(self) -> bool:
        return self.exported.status.code == self.exported.status.STATUS_CODE_ERROR

    @property
    def events(self) -> list[tuple[str, dict[str, Any]]]:
        return [(event.name, values_of(event.attributes)) for event in self.exported.events]

    @property
    def attributes(self) -> dict[str, Any]:
        return values_of(self.exported.attributes)


def values_of(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


@dataclass
class Collector:
    """What came so far. While it is `silent` it accepts connections and never answers."""

    url: str = ""
    silent: bool = False
    spans: list[Span] = field(default_factory=list)
    metrics: dict[str, Any] = field(default_factory=dict)
    bodies: list[bytes] = field(default_factory=list)
    asked: int = 0
    released: threading.Event = field(default_factory=threading.Event)

    def take(self, path: str, body: bytes) -> bytes:
        self.bodies.append(body)
        if path == "/v1/metrics":
            for one in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                for scope in one.scope_metrics:
                    self.metrics |= {metric.name: metric for metric in scope.metrics}
            return ExportMetricsServiceResponse().SerializeToString()
        assert path == "/v1/traces", path
        for one in ExportTraceServiceRequest.FromString(body).resource_spans:
            resource = values_of(one.resource.attributes)
            for scope in one.scope_spans:
                self.spans += [Span(span, resource) for span in scope.spans]
        return ExportTraceServiceResponse().SerializeToString()

    def named(self, name: str) -> list[Span]:
        return [span for span in list(self.spans) if span.name == name]

    def values(self, name: str) -> dict[tuple[str, ...], float]:
        """The numbers of a counter or gauge by the values of their labels."""
        metric = self.metrics.get(name)
        if metric is None:
            return {}
        points = getattr(metric, metric.WhichOneof("data")).data_points
        return {
            tuple(values_of(point.attributes).values()): point.as_double or point.as_int
            for point in points
        }


@contextlib.contextmanager
def collecting(*, silent: bool = False) -> Iterator[Collector]:
    collector = Collector(silent=silent)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            collector.asked += 1
            if collector.silent:
                collector.released.wait()
                return
            answer = collector.take(self.path, body)
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None: ...

    with serving(Handler) as url:
        collector.url = url
        try:
            yield collector
        finally:
            collector.released.set()


@contextlib.contextmanager
def receiving(status: int = 204) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """A receiver of callbacks: its URL, and the headers of what came, with names in lower case."""
    received: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            received.append({name.lower(): value for name, value in self.headers.items()})
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with serving(Handler) as url:
        yield url, received


@contextlib.contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
