"""Unique keys that ended jobs hold.

A key is written by the transaction that ends its job. So whoever has added a new job with that key,
while no live job had it, finds the key in a later statement.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from onbeat.model.held_key import HeldKey
from onbeat.model.ids import JobId
from onbeat.model.limits import INTEGER_MAX
from onbeat.ports.store import Settlement
from onbeat.rules.held_keys import held_key
from onbeat.stores.sql.dialect import Columns, Row
from onbeat.stores.sql.session import Session
from onbeat.stores.sql.values import instant, instant_or_none, micros
from onbeat.stores.sql.verbs.enqueue import NewJob
from onbeat.stores.sql.verbs.jobs import delete_live

KEY: Final[Columns] = {"unique_key": "text"}
COLUMNS: Final[Columns] = {**KEY, "job_id": "uuid", "held_until": "bigint"}
NAMES: Final = ", ".join(COLUMNS)


def held_row(held: HeldKey) -> Row:
    return held.key, held.job_id, INTEGER_MAX if held.until is None else micros(held.until)


def read_held(row: Sequence[object]) -> HeldKey:
    key, job_id, until = row
    assert isinstance(until, int), "a column of whole numbers"
    return HeldKey(
        key=str(key),
        job_id=JobId(str(job_id)),
        until=None if until == INTEGER_MAX else instant(until),
    )


def held_by(settlement: Settlement) -> HeldKey | None:
    """The key that the job holds after this settlement, where that ends it."""
    job = settlement.job
    if job.unique_for is None or not job.is_final:
        return None
    return held_key(job, job.state, job.finished_at or settlement.attempt.finished_at)


class StoredOption(msgspec.Struct, frozen=True):
    """What the stored definition of a job says about its key."""

    unique_for: timedelta | None = None


STORED: Final = msgspec.json.Decoder(StoredOption)


def asks_to_hold(spec: str) -> bool:
    """Whether the definition may have `unique_for`; few have, and the others are not decoded."""
    return '"unique_for"' in spec


class RowOfJob(msgspec.Struct, frozen=True):
    id: JobId
    unique: str | None
    unique_for: timedelta | None
    started_at: datetime | None


def held_of_row(row: Mapping[str, Any], state: str, now: int) -> HeldKey | None:
    """The key that the job of this row holds after its end."""
    job = RowOfJob(
        id=JobId(str(row["id"])),
        unique=row["unique_key"],
        unique_for=STORED.decode(row["spec"]).unique_for,
        started_at=instant_or_none(row["started_at"]),
    )
    return held_key(job, state, instant(now))


async def hold_keys(session: Session, held: Sequence[HeldKey]) -> None:
    """Of several jobs with one key the last to end holds it."""
    if not held:
        return
    ending = session.dialect.or_change("unique_key", ["job_id", "held_until"])
    rows = {one.key: held_row(one) for one in held}
    await session.insert_rows("held_keys", COLUMNS, [rows[key] for key in sorted(rows)], ending)


async def holders(session: Session, keys: Collection[str], now: int) -> dict[str, JobId]:
    """The ended jobs that hold these keys."""
    if not keys:
        return {}
    dialect = session.dialect
    rest = f"""
        FROM onbeat.held_keys {dialect.use_index("PRIMARY")}
        WHERE {dialect.in_list("unique_key", "text")} AND held_until > ?
    """
    rows = await session.select("unique_key, job_id", rest, tuple(keys), now)
    return {key: JobId(str(id)) for key, id in rows}


async def take_back(session: Session, jobs: Sequence[NewJob]) -> dict[str, JobId]:
    """Delete those of the added jobs whose key an ended job holds; returns the holders by key.

    Must come after the jobs were added, in the same transaction. A job that holds its own key was
    retried, and stays.
    """
    keyed = [job for job in jobs if job.unique is not None]
    if not keyed:
        return {}
    keys = {job.unique for job in keyed if job.unique is not None}
    held = await holders(session, keys, min(job.created_at for job in keyed))
    if held:
        out = [job.id for job in keyed if held.get(job.unique or "", job.id) != job.id]
        await delete_new(session, out)
    return held


async def delete_new(session: Session, ids: Sequence[JobId]) -> None:
    """Delete the jobs that were never claimed: a repeated call may name jobs that went on."""
    dialect = session.dialect
    rest = f"FROM onbeat.jobs WHERE {dialect.in_list('id', 'uuid')} AND token = 0"
    rows = await session.select("id", rest, tuple(ids))
    await delete_live(session, [JobId(str(id)) for (id,) in rows])


async def find_held_key(session: Session, key: str, now: int) -> HeldKey | None:
    rest = "FROM onbeat.held_keys WHERE unique_key = ? AND held_until > ?"
    rows = await session.select(NAMES, rest, key, now)
    return read_held(rows[0]) if rows else None


async def prune_held_keys(session: Session, now: int, limit: int) -> int:
    dialect = session.dialect
    rest = f"""
        FROM onbeat.held_keys {dialect.use_index("held_keys_past")}
        WHERE held_until <= ?
        ORDER BY held_until
        LIMIT ?
        {dialect.skip_locked}
    """
    past = await session.select("unique_key", rest, now, limit)
    await session.delete_rows("held_keys", KEY, past)
    return len(past)


async def export_held_keys(session: Session, after: str | None, limit: int) -> Sequence[HeldKey]:
    where = "TRUE" if after is None else "unique_key > ?"
    values = () if after is None else (after,)
    rest = f"FROM onbeat.held_keys WHERE {where} ORDER BY unique_key LIMIT ?"
    return list(map(read_held, await session.select(NAMES, rest, *values, limit)))


async def import_held_keys(session: Session, held: Sequence[HeldKey]) -> int:
    """Add or replace keys; one that is held longer here stays."""
    keys = tuple(one.key for one in held)
    rest = f"FROM onbeat.held_keys WHERE {session.dialect.in_list('unique_key', 'text')}"
    rows = await session.select("unique_key, held_until", rest, keys)
    here: dict[str, int] = {key: until for key, until in rows}  # noqa: C416  rows are sequences
    longer = [one for one in held if held_row(one)[2] > here.get(one.key, -INTEGER_MAX)]
    await hold_keys(session, longer)
    return len(longer)
