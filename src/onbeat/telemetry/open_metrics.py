"""OpenMetrics 1.0: when a scraper gets it in place of the older text format, and its exemplars."""

import re
from collections.abc import Iterable
from typing import Final

from prometheus_client.samples import Exemplar

from onbeat.model.trace_context import ids_of
from onbeat.telemetry.counters import TracedValue

OPEN_METRICS: Final = "application/openmetrics-text"
TEXT: Final = "text/plain"
CONTENT_TYPE: Final = f"{OPEN_METRICS}; version=1.0.0; charset=utf-8"
QUALITY: Final = re.compile(r"q=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?)", re.ASCII | re.IGNORECASE)


def prefers_open_metrics(accept: str) -> bool:
    """Whether an `Accept` (RFC 9110, 12.5.1) names it, and the text format with no more weight."""
    weights = {OPEN_METRICS: 0.0, TEXT: 0.0}
    for part in accept.split(","):
        kind, *parameters = part.split(";")
        name = kind.strip().lower()
        if name in weights:
            weights[name] = max(weights[name], weight_of(parameters))
    return weights[OPEN_METRICS] > 0 and weights[OPEN_METRICS] >= weights[TEXT]


def weight_of(parameters: Iterable[str]) -> float:
    """The value of `q`; 1 without a valid one."""
    for parameter in parameters:
        if match := QUALITY.fullmatch(parameter.strip()):
            return float(match[1])
    return 1.0


def exemplar_of(traced: TracedValue) -> Exemplar:
    trace_id, _ = ids_of(traced.traceparent)
    return Exemplar({"trace_id": trace_id}, traced.value, traced.at)
