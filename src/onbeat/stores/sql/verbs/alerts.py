"""Alerts and silences."""

from collections.abc import Sequence

import msgspec

from onbeat.model.alert import Alert, AlertChange, AlertSilence
from onbeat.stores.sql.session import Session
from onbeat.stores.sql.values import instant, instant_or_none, micros, to_json
from onbeat.stores.sql.verbs.own_events import announce

COLUMNS = "record, since, seen_at, ended_at, is_announced, times"

READ_ALERT = msgspec.json.Decoder(Alert)
READ_SILENCE = msgspec.json.Decoder(AlertSilence)


async def alerts(session: Session, *, is_open: bool, limit: int) -> Sequence[Alert]:
    which = "ended_at IS NULL" if is_open else "ended_at IS NOT NULL"
    rest = f"FROM onbeat.alerts WHERE {which} ORDER BY since DESC, name LIMIT ?"
    rows = await session.select(COLUMNS, rest, limit)
    return [
        msgspec.structs.replace(
            READ_ALERT.decode(record),
            since=instant(since),
            seen_at=instant(seen_at),
            ended_at=instant_or_none(ended_at),
            is_announced=bool(is_announced),
            times=times,
        )
        for record, since, seen_at, ended_at, is_announced, times in rows
    ]


async def note_alerts(
    session: Session, changes: Sequence[AlertChange], now: int
) -> Sequence[AlertChange]:
    verbs = {"seen": note_seen, "announced": note_announced, "ended": note_ended}
    made: list[AlertChange] = []
    for change in sorted(changes, key=lambda one: one.alert.key):  # one order, so no deadlock
        if await verbs[change.to](session, change.alert, now):
            if change.event is not None:
                await announce(session, [change.event])
            made.append(change)
    return made


async def note_seen(session: Session, alert: Alert, now: int) -> bool:
    """Whether the alert begins."""
    record = to_json(alert)
    inserted = f"""
        INSERT INTO onbeat.alerts (name, since, seen_at, ended_at, is_announced, record)
        VALUES (?, ?, ?, NULL, FALSE, ?)
        {session.dialect.unless_there("name")}
    """  # noqa: S608  values are bound
    if await session.execute(inserted, alert.key, now, now, record):
        return True
    again = """
        UPDATE onbeat.alerts
        SET since = ?, seen_at = ?, ended_at = NULL, is_announced = FALSE, record = ?,
            times = times + 1
        WHERE name = ? AND ended_at IS NOT NULL
    """
    if await session.execute(again, now, now, record, alert.key):
        return True
    refreshed = "UPDATE onbeat.alerts SET seen_at = ?, record = ? WHERE name = ? AND seen_at < ?"
    await session.execute(refreshed, now, record, alert.key, now)
    return False


async def note_announced(session: Session, alert: Alert, _now: int) -> bool:
    sql = """
        UPDATE onbeat.alerts SET is_announced = TRUE
        WHERE name = ? AND is_announced = FALSE AND ended_at IS NULL
    """
    return await session.execute(sql, alert.key) > 0


async def note_ended(session: Session, alert: Alert, now: int) -> bool:
    sql = """
        UPDATE onbeat.alerts SET ended_at = ?
        WHERE name = ? AND ended_at IS NULL AND seen_at <= ?
    """
    return await session.execute(sql, now, alert.key, micros(alert.seen_at)) > 0


async def prune_alerts(session: Session, before: int, limit: int) -> int:
    dialect = session.dialect
    ended = dialect.delete_first("alerts", "name", "ended_at < ?", "ended_at")
    over = dialect.delete_first("silences", "id", "until_at < ?", "until_at")
    return await session.execute(ended, before, limit) + await session.execute(over, before, limit)


async def silences(session: Session, now: int) -> Sequence[AlertSilence]:
    rest = "FROM onbeat.silences WHERE until_at > ? ORDER BY until_at, id"
    return [READ_SILENCE.decode(record) for (record,) in await session.select("record", rest, now)]


async def add_silence(session: Session, silence: AlertSilence) -> None:
    sql = "INSERT INTO onbeat.silences (id, until_at, record) VALUES (?, ?, ?)"
    await session.execute(sql, silence.id, micros(silence.until), to_json(silence))


async def end_silence(session: Session, id: str) -> bool:
    return await session.execute("DELETE FROM onbeat.silences WHERE id = ?", id) > 0
