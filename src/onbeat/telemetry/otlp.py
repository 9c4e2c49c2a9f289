"""Exports spans and metrics of a service to a collector. Jobs never wait for it.

Spans wait in a queue of bounded length, which a thread of the SDK sends; what finds no room is
dropped. All exports are in daemon threads, so a collector that does not answer holds up neither the
event loop nor the end of the process.
"""

import asyncio
import contextlib
import logging
import os
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from importlib.metadata import version
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter
from prometheus_client.metrics_core import Metric as Family

from onbeat.telemetry.otlp_metrics import metrics_data
from onbeat.telemetry.otlp_settings import CONSOLE, OtlpOptions
from onbeat.telemetry.repeats import Repeats
from onbeat.telemetry.structured_log import Log
from onbeat.telemetry.tracing import OtelTracing, global_tracing

FLUSH_SECONDS: Final = 2.0
"""How long the end of the service waits for the collector."""

lines: Final = Log("onbeat.telemetry")


ReadMetrics = Callable[[], Iterable[Family]]
"""Reads the metrics of this process."""

Refresh = Callable[[], Awaitable[None]]
"""Asks the store for those that it knows."""


class OtlpExport:
    """The tracer provider and the exports of one process."""

    def __init__(self, options: OtlpOptions) -> None:
        self.options = options
        self.resource = resource_of(options)
        self.tracing = global_tracing()
        if self.tracing is None and options.spans is not None:
            provider = tracer_provider(options.spans, self.resource)
            trace.set_tracer_provider(provider)
            self.tracing = OtelTracing(provider)
        self.metrics: MetricExport | None = None
        quiet_sdk()

    def start(self, read: ReadMetrics, refresh: Refresh) -> None:
        """Begin to export metrics, in the running event loop."""
        seconds = self.options.metrics_seconds
        if seconds is not None:
            self.metrics = MetricExport(self.resource, read, refresh, seconds)
            self.metrics.start()

    async def close(self) -> None:
        """Send what waits, for at most `FLUSH_SECONDS`."""
        last: list[Awaitable[object]] = []
        if self.metrics is not None:
            last.append(self.metrics.close())
        if self.tracing is not None:
            last.append(run_aside(flush_of(self.tracing.provider)))
        try:
            await asyncio.wait_for(asyncio.gather(*last), FLUSH_SECONDS)
        except TimeoutError:
            lines.warning("otel.unsent", waited=FLUSH_SECONDS)


class MetricExport:
    """Sends the metrics at an interval, one request after another."""

    def __init__(
        self,
        resource: Resource,
        read: ReadMetrics,
        refresh: Refresh,
        seconds: float,
        unix_nanoseconds: Callable[[], int] = time.time_ns,
    ) -> None:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import (  # noqa: PLC0415  slow
            OTLPMetricExporter,
        )

        self.exporter: Any = OTLPMetricExporter()  # its types are not all known
        self.resource = resource
        self.read = read
        self.refresh = refresh
        self.seconds = seconds
        self.unix_nanoseconds = unix_nanoseconds
        self.since = unix_nanoseconds()
        self.task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.task = asyncio.create_task(self.run())

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self.seconds)
            await self.refresh()
            await self.export()

    async def export(self) -> None:
        data = metrics_data(self.read(), self.resource, self.since, self.unix_nanoseconds())
        await run_aside(lambda: self.exporter.export(data))

    async def close(self) -> None:
        """Send the last counts. The store is closed by now, so what it said last stays."""
        if self.task is not None:
            self.task.cancel()
            await asyncio.wait([self.task])
        await self.export()


def resource_of(options: OtlpOptions) -> Resource:
    """This process; the standard variables say more of it, and win."""
    own = Resource(
        {
            "service.version": version("onbeat"),
            "service.instance.id": f"{socket.gethostname()}-{os.getpid()}",
        }
    )
    resource = own.merge(Resource.create())
    if options.service_name is None:
        return resource
    return resource.merge(Resource({SERVICE_NAME: options.service_name}))


def tracer_provider(exporter: str, resource: Resource) -> TracerProvider:
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(span_exporter(exporter)))
    return provider


def span_exporter(exporter: str) -> SpanExporter:
    if exporter == CONSOLE:
        return ConsoleSpanExporter()
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415  slow
        OTLPSpanExporter,
    )

    return OTLPSpanExporter()


def flush_of(provider: trace.TracerProvider) -> Callable[[], object]:
    """Sends what waits. A provider of another maker may have no such method."""
    flush: Callable[[], object] = getattr(provider, "force_flush", bool)
    return flush


async def run_aside(call: Callable[[], Any]) -> None:
    """Run the call in a daemon thread of its own; it may last longer than the process."""
    loop = asyncio.get_running_loop()
    done = asyncio.Event()

    def work() -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001  an exporter must not harm what it reports on
            lines.error("otel.failed", error)
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(done.set)

    threading.Thread(target=work, name="onbeat-otlp", daemon=True).start()
    await done.wait()


class OncePerMinute(logging.Filter):
    """Lets a line of the SDK through once a minute: it writes some for every failed request."""

    def __init__(self) -> None:
        super().__init__()
        self.repeats = Repeats()

    def filter(self, record: logging.LogRecord) -> bool:
        return self.repeats.times_to_log(str(record.msg)) > 0


SDK_LOGGERS: Final = (
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "opentelemetry.exporter.otlp.proto.http.metric_exporter",
    "opentelemetry.sdk._shared_internal",
)


def quiet_sdk() -> None:
    for name in SDK_LOGGERS:
        logger = logging.getLogger(name)
        if not any(isinstance(one, OncePerMinute) for one in logger.filters):
            logger.addFilter(OncePerMinute())
