"""Which alerts begin, are told and end, and Onbeat's own events about them."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Final

import msgspec

from onbeat.model.alert import Alert, AlertChange, AlertSilence, Level
from onbeat.model.event import OWN_SOURCE, Event
from onbeat.rules.job_events import DEPTH, EPOCH, MICROSECOND
from onbeat.rules.own_events import fits
from onbeat.rules.verdict import Concern

RAISED: Final = "onbeat.alert.raised"
RESOLVED: Final = "onbeat.alert.resolved"

RESOLVED_AFTER: Final = timedelta(minutes=1)
"""An alert ends when it was not seen for so long, so that one that comes and goes stays one."""

ANNOUNCED_AFTER: Final = timedelta(seconds=15)
"""An alert is told once it has lasted so long, so that no start of a process is told."""

ALERTS_MAX: Final = 200
"""So many alerts are told one by one; the others are one alert together."""

KEY_OF_OTHERS: Final = "others"
DIGEST_BYTES: Final = 12


class AlertData(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The data of both events. `seconds` is how long the alert lasted, when it is resolved."""

    key: str
    level: Level
    text: str
    detail: str
    since: datetime
    queue: str | None = None
    job: str | None = None
    seconds: float | None = None


def alert_changes(
    found: Sequence[Concern],
    alerts: Sequence[Alert],
    silences: Sequence[AlertSilence],
    now: datetime,
) -> Sequence[AlertChange]:
    """What has changed since the last look. `found` are the concerns of now, the worst first.

    `alerts` are the open ones.
    """
    before = {alert.key: alert for alert in alerts}
    changes: list[AlertChange] = []
    for concern in announced_concerns(found):
        alert = alert_of(concern, before.pop(concern.key, None), now)
        changes.append(AlertChange(to="seen", alert=alert))
        if is_due(alert, now) and not is_silenced(alert.key, silences, now):
            changes.append(AlertChange(to="announced", alert=alert, event=raised_event(alert)))
    for alert in before.values():
        if now - alert.seen_at >= RESOLVED_AFTER:
            event = resolved_event(alert, now) if alert.is_announced else None
            changes.append(AlertChange(to="ended", alert=alert, event=event))
    return changes


def is_due(alert: Alert, now: datetime) -> bool:
    return not alert.is_announced and now - alert.since >= ANNOUNCED_AFTER


def announced_concerns(found: Sequence[Concern]) -> Sequence[Concern]:
    """One concern for each key, the worst; those beyond the bound become one."""
    by_key: dict[str, Concern] = {}
    for concern in found:
        if concern.is_alert:
            by_key.setdefault(concern.key, concern)
    chosen = [*by_key.values()]
    if len(chosen) <= ALERTS_MAX:
        return chosen
    others = Concern(
        key=KEY_OF_OTHERS,
        level="fail",
        weight=0,
        text=f"{len(chosen) - ALERTS_MAX + 1:,} more alerts",
        detail="The dashboard has all of them.",
    )
    return [*chosen[: ALERTS_MAX - 1], others]


def alert_of(concern: Concern, before: Alert | None, now: datetime) -> Alert:
    return Alert(
        key=concern.key,
        level=concern.level,
        text=concern.text,
        detail=concern.detail,
        since=now if before is None else before.since,
        seen_at=now,
        is_announced=before is not None and before.is_announced,
        queue=concern.queue,
        job=concern.job,
        fault=concern.fault,
        times=1 if before is None else before.times,
    )


def is_silenced(key: str, silences: Sequence[AlertSilence], now: datetime) -> bool:
    return any(holds(silence, now) and fits(silence.match, key) for silence in silences)


def holds(silence: AlertSilence, now: datetime) -> bool:
    """Whether it has begun and has not ended."""
    return (silence.starts_at is None or silence.starts_at <= now) and now < silence.until


def raised_event(alert: Alert) -> Event:
    """The event; its id says which alert began when."""
    return alert_event(alert, RAISED, alert.seen_at, None)


def resolved_event(alert: Alert, now: datetime) -> Event:
    return alert_event(alert, RESOLVED, now, (now - alert.since).total_seconds())


def alert_event(alert: Alert, type: str, at: datetime, seconds: float | None) -> Event:
    data = AlertData(
        key=alert.key,
        level=alert.level,
        text=alert.text,
        detail=alert.detail,
        since=alert.since,
        queue=alert.queue,
        job=alert.job,
        seconds=seconds,
    )
    digest = blake2b(alert.key.encode(), digest_size=DIGEST_BYTES).hexdigest()
    return Event(
        id=f"{digest}/{(alert.since - EPOCH) // MICROSECOND}/{type.rpartition('.')[2]}",
        source=OWN_SOURCE,
        type=type,
        time=at,
        subject=alert.key,
        data=msgspec.Raw(msgspec.json.encode(data)),
        extensions={DEPTH: 1},
    )
