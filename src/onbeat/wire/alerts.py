"""Wire records of alerts and silences."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from onbeat.model.alert import Alert, AlertSilence
from onbeat.model.limits import ALERT_KEY_CHARS_MAX, REASON_CHARS_MAX
from onbeat.wire.answer import AnswerRecord
from onbeat.wire.requests import LimitForm
from onbeat.wire.values import InstantForm, SpanForm

ALERTS_SHOWN = 100


class ListAlerts(msgspec.Struct, frozen=True, kw_only=True):
    state: Literal["open", "ended"] = "open"
    limit: LimitForm = ALERTS_SHOWN


class AlertSilenceBody(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    rename={"span": "for", "starts_at": "from"},
):
    """Which alerts are kept quiet, from now or an instant, until another or for a span."""

    match: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=ALERT_KEY_CHARS_MAX,
            description="The key of an alert; a * at the end stands for any rest",
            examples=["late:billing", "failing:*"],
        ),
    ]
    starts_at: (
        Annotated[InstantForm, Meta(description="When it begins; now without it")] | UnsetType
    ) = UNSET
    span: SpanForm | UnsetType = UNSET
    until: InstantForm | UnsetType = UNSET
    note: Annotated[str, Meta(max_length=REASON_CHARS_MAX)] = ""


class CreateSilence(msgspec.Struct, frozen=True):
    silence: AlertSilenceBody


class SilenceById(msgspec.Struct, frozen=True):
    id: Annotated[str, Meta(description="The id that `alert.silence` answered")]


class AlertAnswer(AnswerRecord, frozen=True, kw_only=True):
    """What is wrong since `since`, or was until `ended_at`.

    `announced`: its event was written. `times` counts how often it has begun, in the last 30 days.
    """

    key: str
    level: str
    text: str
    detail: str
    since: datetime
    ended_at: datetime | None
    announced: bool
    silenced: bool
    times: int
    queue: str | None
    job_id: str | None
    fault: str | None


class SilenceAnswer(AnswerRecord, frozen=True, kw_only=True):
    """Alerts whose key is as `match` are not told from `starts_at` (null: at once) to `until`."""

    id: str
    match: str
    starts_at: datetime | None
    until: datetime
    note: str
    made_by: str
    made_at: datetime


class AlertsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Alerts, the newest first, and the silences that hold or will begin."""

    alerts: tuple[AlertAnswer, ...]
    silences: tuple[SilenceAnswer, ...]


def alert_answer(alert: Alert, *, silenced: bool) -> AlertAnswer:
    return AlertAnswer(
        key=alert.key,
        level=alert.level,
        text=alert.text,
        detail=alert.detail,
        since=alert.since,
        ended_at=alert.ended_at,
        announced=alert.is_announced,
        silenced=silenced,
        times=alert.times,
        queue=alert.queue,
        job_id=alert.job,
        fault=alert.fault,
    )


def silence_answer(silence: AlertSilence) -> SilenceAnswer:
    return SilenceAnswer(
        id=silence.id,
        match=silence.match,
        starts_at=silence.starts_at,
        until=silence.until,
        note=silence.note,
        made_by=silence.made_by,
        made_at=silence.made_at,
    )
