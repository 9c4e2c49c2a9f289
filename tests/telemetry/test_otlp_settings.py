"""Whether to export, and what: the setting and the standard variables together."""

from typing import Any

import pytest

from onbeat.app.tracing import otlp_export
from onbeat.model.errors import Misconfigured
from onbeat.telemetry import otlp_settings
from onbeat.telemetry.otlp_settings import INTERVAL_MAX, OtlpOptions, read_options

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}
ALL = OtlpOptions(spans="otlp", metrics_seconds=60.0, service_name="onbeat")


@pytest.mark.parametrize(
    ("wanted", "environ", "options"),
    [
        (None, {}, None),
        (None, ENDPOINT, ALL),
        (None, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c/v1/traces"}, ALL),
        (None, {"OTEL_TRACES_EXPORTER": "otlp"}, ALL),
        (None, {"OTEL_TRACES_EXPORTER": "none"}, None),
        (None, {"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, None),
        (None, ENDPOINT | {"OTEL_SDK_DISABLED": "True"}, None),
        (True, {}, ALL),
        (True, {"OTEL_SDK_DISABLED": "true"}, None),
        (False, ENDPOINT, None),
    ],
)
def test_the_setting_counts_and_else_the_variables(
    wanted: bool | None, environ: dict[str, str], options: Any
) -> None:
    assert read_options(wanted, environ) == options


@pytest.mark.parametrize(
    ("environ", "field", "value"),
    [
        ({"OTEL_TRACES_EXPORTER": "console"}, "spans", "console"),
        ({"OTEL_TRACES_EXPORTER": " None "}, "spans", None),
        ({"OTEL_METRICS_EXPORTER": "none"}, "metrics_seconds", None),
        ({"OTEL_METRIC_EXPORT_INTERVAL": "1"}, "metrics_seconds", 0.001),
        ({"OTEL_METRIC_EXPORT_INTERVAL": str(INTERVAL_MAX)}, "metrics_seconds", 86_400.0),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, "spans", "otlp"),
        ({"OTEL_SERVICE_NAME": "shop"}, "service_name", None),
        ({"OTEL_RESOURCE_ATTRIBUTES": "a=b,service.name=shop"}, "service_name", None),
        (
            {
                "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
                "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
                "OTEL_METRICS_EXPORTER": "none",
            },
            "spans",
            "otlp",
        ),
    ],
)
def test_a_variable_says_what_and_where_to(
    environ: dict[str, str], field: str, value: object
) -> None:
    assert getattr(read_options(True, environ), field) == value


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("OTEL_TRACES_EXPORTER", "zipkin"),
        ("OTEL_METRICS_EXPORTER", "console"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "http/json"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "0"),
        ("OTEL_METRIC_EXPORT_INTERVAL", str(INTERVAL_MAX + 1)),
        ("OTEL_METRIC_EXPORT_INTERVAL", "1m"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "9" * 5_000),
    ],
)
def test_what_is_not_there_is_named(
    caplog: pytest.LogCaptureFixture, variable: str, value: str
) -> None:
    with pytest.raises(Misconfigured, match=f"^{variable}: "):
        otlp_export(True, {variable: value})
    # The variables may be set for all programs of a machine: without the setting they stop none.
    assert otlp_export(None, ENDPOINT | {variable: value}) is None
    (record,) = caplog.records
    assert (record.message, variable in vars(record)["reason"]) == ("otel.off", True)


def test_without_the_packages_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp_settings, "PACKAGES", ("opentelemetry.sdk", "not_there.at.all"))
    with pytest.raises(Misconfigured, match=r"pip install 'onbeat\[otel\]'"):
        read_options(True, {})
    assert read_options(None, ENDPOINT) is None
