"""Alerts and silences."""

from typing import Any, Final

from onbeat.model.principal import Scope
from onbeat.operations import alerts
from onbeat.operations.tables.operation import Operation
from onbeat.wire.alerts import AlertsAnswer, CreateSilence, ListAlerts, SilenceAnswer, SilenceById
from onbeat.wire.requests import Message

ALERT_LIST: Final = Operation(
    name="alert.list",
    id="listAlerts",
    summary="What is wrong now, or was, and which alerts are silenced",
    function=alerts.list_alerts,
    request=ListAlerts,
    answer=AlertsAnswer,
    method="GET",
    path="/api/alerts",
    scope=Scope.READ,
)

ALERT_SILENCE: Final = Operation(
    name="alert.silence",
    id="silenceAlerts",
    summary="Tell no alerts of a kind for a while, as during maintenance",
    function=alerts.silence,
    request=CreateSilence,
    answer=SilenceAnswer,
    method="POST",
    path="/api/silences",
    status=201,
    body="silence",
    scope=Scope.OPERATE,
)

ALERT_UNSILENCE: Final = Operation(
    name="alert.unsilence",
    id="endSilence",
    summary="End a silence; open alerts that it held back are sent",
    function=alerts.end_silence,
    request=SilenceById,
    answer=Message,
    method="DELETE",
    path="/api/silences/{id}",
    scope=Scope.OPERATE,
)

OPERATIONS: Final[tuple[Operation[Any, Any], ...]] = (ALERT_LIST, ALERT_SILENCE, ALERT_UNSILENCE)
