"""Queues that are watched for lateness."""

from collections.abc import Sequence
from datetime import timedelta

from onbeat.model.ids import JobId
from onbeat.model.queue import LatenessChange, WatchedQueue
from onbeat.rules.lateness import TYPE
from onbeat.stores.sql.forms import WaitingList
from onbeat.stores.sql.session import Session
from onbeat.stores.sql.values import instant, instant_or_none
from onbeat.stores.sql.verbs.events import new_row, publish
from onbeat.stores.sql.verbs.own_events import wanted_of


async def watched_queues(session: Session, now: int) -> Sequence[WatchedQueue]:
    watched = session.dialect.use_index("queues_watched")
    rest = f"FROM onbeat.queues {watched} WHERE late_after IS NOT NULL ORDER BY name"
    result: list[WatchedQueue] = []
    for name, paused, after, since in await session.select(
        "name, paused, late_after, late_since", rest
    ):
        oldest = await oldest_due(session, name, now)
        result.append(
            WatchedQueue(
                name=name,
                paused=bool(paused),
                late_after=timedelta(microseconds=after),
                late_since=instant_or_none(since),
                oldest=None if oldest is None else oldest[1],
                oldest_due_at=None if oldest is None else instant(oldest[0]),
            )
        )
    return result


async def oldest_due(session: Session, queue: str, now: int) -> tuple[int, JobId] | None:
    """The due time and id of the queue's oldest job that is due and may be claimed."""
    heads = [
        head
        for one in session.forms.waiting_lists
        if not one.may_be_blocked
        for head in await list_heads(session, one, queue)
    ]
    return min((head for head in heads if head[0] <= now), default=None)


async def list_heads(session: Session, jobs: WaitingList, queue: str) -> list[tuple[int, JobId]]:
    """The first job of each ready list of the queue: one seek for each, however long it is."""
    heads: list[tuple[int, JobId]] = []
    order = ", ".join(jobs.order)
    columns = f"{order if 'queue' in jobs.order else f'{order}, queue'}, due_at, id"
    place = columns.split(", ").index("queue")
    condition, values = jobs.of_queue(queue)
    while True:
        rest = f"""
            FROM onbeat.jobs {session.dialect.use_index(jobs.index)}
            WHERE {jobs.where} AND {condition}
            ORDER BY {order}, due_at, id
            LIMIT 1
        """
        found = await session.select(columns, rest, *values)
        if not found or found[0][place] != queue:
            return heads
        *keys, due_at, id = found[0]
        heads.append((due_at, JobId(str(id))))
        condition, values = jobs.behind, tuple(keys[: len(jobs.order)])


async def note_lateness(session: Session, changes: Sequence[LatenessChange], now: int) -> int:
    wanted = await wanted_of(session, {TYPE})
    noted = 0
    for change in changes:
        if change.event is None:
            noted += await note_in_time(session, change.queue)
        elif wanted and await note_late(session, change.queue, now):
            noted += 1
            await publish(session, [new_row(change.event, change.event.time)])
    return noted


async def note_late(session: Session, queue: str, now: int) -> int:
    sql = """
        UPDATE onbeat.queues SET late_since = ?
        WHERE name = ? AND late_since IS NULL AND late_after IS NOT NULL
    """
    return await session.execute(sql, now, queue)


async def note_in_time(session: Session, queue: str) -> int:
    sql = "UPDATE onbeat.queues SET late_since = NULL WHERE name = ? AND late_since IS NOT NULL"
    return await session.execute(sql, queue)
