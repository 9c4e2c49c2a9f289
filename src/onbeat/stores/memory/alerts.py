"""Alerts and silences."""

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from onbeat.model.alert import Alert, AlertChange, AlertSilence
from onbeat.stores.memory.stored_events import announce
from onbeat.stores.memory.tables import Tables


def alerts(tables: Tables, *, is_open: bool, limit: int) -> Sequence[Alert]:
    found = [one for one in tables.watch.alerts.values() if (one.ended_at is None) is is_open]
    found.sort(key=lambda alert: alert.key)
    found.sort(key=lambda alert: alert.since, reverse=True)
    return found[:limit]


def note_alerts(
    tables: Tables, changes: Sequence[AlertChange], now: datetime
) -> Sequence[AlertChange]:
    verbs = {"seen": note_seen, "announced": note_announced, "ended": note_ended}
    made: list[AlertChange] = []
    for change in sorted(changes, key=lambda one: one.alert.key):
        if verbs[change.to](tables, change.alert, now):
            announce(tables, change.event)
            made.append(change)
    return made


def note_seen(tables: Tables, alert: Alert, now: datetime) -> bool:
    """Whether the alert begins."""
    before = tables.watch.alerts.get(alert.key)
    if before is None or before.ended_at is not None:
        times = 1 if before is None else before.times + 1
        tables.watch.alerts[alert.key] = replace(
            alert, since=now, seen_at=now, ended_at=None, is_announced=False, times=times
        )
        return True
    if before.seen_at < now:
        tables.watch.alerts[alert.key] = replace(
            alert,
            since=before.since,
            seen_at=now,
            is_announced=before.is_announced,
            times=before.times,
        )
    return False


def note_announced(tables: Tables, alert: Alert, _now: datetime) -> bool:
    before = tables.watch.alerts.get(alert.key)
    if before is None or before.is_announced or before.ended_at is not None:
        return False
    tables.watch.alerts[alert.key] = replace(before, is_announced=True)
    return True


def note_ended(tables: Tables, alert: Alert, now: datetime) -> bool:
    before = tables.watch.alerts.get(alert.key)
    if before is None or before.ended_at is not None or before.seen_at > alert.seen_at:
        return False
    tables.watch.alerts[alert.key] = replace(before, ended_at=now)
    return True


def prune_alerts(tables: Tables, before: datetime, limit: int) -> int:
    ended = [
        alert.key
        for alert in tables.watch.alerts.values()
        if alert.ended_at is not None and alert.ended_at < before
    ][:limit]
    over = [one.id for one in tables.watch.silences.values() if one.until < before][:limit]
    for key in ended:
        del tables.watch.alerts[key]
    for id in over:
        del tables.watch.silences[id]
    return len(ended) + len(over)


def silences(tables: Tables, now: datetime) -> Sequence[AlertSilence]:
    found = [silence for silence in tables.watch.silences.values() if silence.until > now]
    return sorted(found, key=lambda silence: (silence.until, silence.id))
