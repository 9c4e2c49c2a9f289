"""Whether a service exports by OTLP, and what: the standard variables of OpenTelemetry."""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Final

import msgspec

from onbeat.model.errors import Misconfigured

PACKAGES: Final = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")
KEY: Final = "otel.enabled"
TURNS_ON: Final = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_TRACES_EXPORTER",
)
DISABLED: Final = "OTEL_SDK_DISABLED"
PROTOCOL: Final = "OTEL_EXPORTER_OTLP{}_PROTOCOL"
HTTP: Final = "http/protobuf"
OTLP: Final = "otlp"
CONSOLE: Final = "console"
NONE: Final = "none"
INTERVAL: Final = "OTEL_METRIC_EXPORT_INTERVAL"
INTERVAL_DEFAULT: Final = 60_000  # milliseconds, by the specification
INTERVAL_MAX: Final = 86_400_000


class OtlpOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where spans go (`otlp`, `console` or None), and every how many seconds metrics do, if at all.

    `service_name` is None where the variables name the service.
    """

    spans: str | None
    metrics_seconds: float | None
    service_name: str | None


def read_options(wanted: bool | None, environ: Mapping[str, str]) -> OtlpOptions | None:  # noqa: FBT001  the value of a setting
    """What to export; None for nothing.

    `wanted` is the setting: None leaves it to the variables. Raises `Misconfigured` where it is
    wanted and cannot be, naming the variable or the package.
    """
    is_requested = any(environ.get(name, "").strip() not in {"", NONE} for name in TURNS_ON)
    if wanted is False or is_true(environ.get(DISABLED, "")) or not (wanted or is_requested):
        return None
    if not is_installed():
        if wanted:
            raise Misconfigured(
                "otel.enabled needs OpenTelemetry: pip install 'onbeat[otel]'", key=KEY
            )
        return None
    spans = exporter_of("TRACES", environ, {OTLP, CONSOLE})
    metrics = exporter_of("METRICS", environ, {OTLP})
    return OtlpOptions(
        spans=spans,
        metrics_seconds=None if metrics is None else interval_of(environ),
        service_name=None if names_service(environ) else "onbeat",
    )


def exporter_of(signal: str, environ: Mapping[str, str], known: set[str]) -> str | None:
    """The exporter of `TRACES` or `METRICS`; None for `none`. Raises `Misconfigured`."""
    variable = f"OTEL_{signal}_EXPORTER"
    name = environ.get(variable, "").strip().lower() or OTLP
    if name == NONE:
        return None
    if name not in known:
        others = ", ".join(sorted({*known, NONE}))
        raise Misconfigured(f"{variable}: {name} is not there; choose of {others}", key=KEY)
    if name == OTLP:
        check_protocol(signal, environ)
    return name


def check_protocol(signal: str, environ: Mapping[str, str]) -> None:
    for variable in (PROTOCOL.format(f"_{signal}"), PROTOCOL.format("")):
        if given := environ.get(variable, "").strip():
            if given != HTTP:
                raise Misconfigured(
                    f"{variable}: {given} is not there; send {HTTP}, which collectors take on "
                    "port 4318",
                    key=KEY,
                )
            return


def interval_of(environ: Mapping[str, str]) -> float:
    """Seconds between two exports of the metrics. Raises `Misconfigured`."""
    text = environ.get(INTERVAL, "").strip() or str(INTERVAL_DEFAULT)
    if not (text.isascii() and text.isdigit() and 0 < int(text[:10]) <= INTERVAL_MAX):
        raise Misconfigured(
            f"{INTERVAL}: give milliseconds from 1 to {INTERVAL_MAX}, not {text[:50]!r}", key=KEY
        )
    return int(text) / 1_000


def names_service(environ: Mapping[str, str]) -> bool:
    named = environ.get("OTEL_SERVICE_NAME", "")
    return bool(named) or "service.name=" in environ.get("OTEL_RESOURCE_ATTRIBUTES", "")


def is_true(text: str) -> bool:
    """By the specification of the variables, which knows no other word for it."""
    return text.strip().lower() == "true"


def is_installed() -> bool:
    """Whether the packages of the extra are there."""
    try:
        return all(find_spec(name) is not None for name in PACKAGES)
    except ModuleNotFoundError:
        return False
