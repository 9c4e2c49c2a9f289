"""Which tracer a program's jobs are traced by, if any."""

import logging
import sys
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Final

from onbeat.model.errors import Misconfigured
from onbeat.ports.tracing import Tracing
from onbeat.targets.subprocess import child
from onbeat.telemetry.otlp_settings import read_options

if TYPE_CHECKING:
    from onbeat.telemetry.otlp import OtlpExport

API: Final = "opentelemetry.trace"

log = logging.getLogger("onbeat.telemetry")


def tracing_of_program() -> Tracing | None:
    """Spans by the tracer provider that the program has set; None where it has set none.

    A program that has not imported OpenTelemetry does not import it here.
    """
    if API not in sys.modules:
        return None
    from onbeat.telemetry.tracing import global_tracing  # noqa: PLC0415  see above

    return global_tracing()


def otlp_export(wanted: bool | None, environ: Mapping[str, str]) -> "OtlpExport | None":  # noqa: FBT001  the value of a setting
    """What exports the spans and metrics of a service; None where nothing is to be exported.

    Raises `Misconfigured` where `wanted` says that it must be, and it cannot. Variables that are
    set for all programs of a machine stop none: what they say wrong is logged.
    """
    try:
        options = read_options(wanted, environ)
    except Misconfigured as error:
        if wanted:
            raise
        log.warning("otel.off", extra={"reason": str(error)})
        return None
    if options is None:
        return None
    from onbeat.telemetry.otlp import OtlpExport  # noqa: PLC0415  slow to load

    return OtlpExport(options)


def serve_traced(pipe: Connection, memory_bytes: int | None) -> None:
    """The main function of a process of its own for attempts that are traced."""
    from onbeat.telemetry.tracing import follow_spans, within_span  # noqa: PLC0415  as above

    follow_spans()
    child.serve(pipe, memory_bytes, within_span)
