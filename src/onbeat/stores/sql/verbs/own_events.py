"""Onbeat's own events, written by the transaction that makes them true."""

from collections.abc import Collection, Sequence

from onbeat.model.event import Event
from onbeat.model.job import Job
from onbeat.rules.job_events import end_event, type_of_end
from onbeat.stores.sql.session import Session
from onbeat.stores.sql.values import instant
from onbeat.stores.sql.verbs.events import new_row, publish


async def wanted_ends(session: Session, states: Collection[str]) -> frozenset[str]:
    """The types of the ends in these states that some schedule asks for."""
    return await wanted_of(session, {type_of_end(state) for state in states})


async def wanted_of(session: Session, types: Collection[str]) -> frozenset[str]:
    """Those of the types that some schedule asks for."""
    dialect = session.dialect
    rest = f"""
        FROM onbeat.own_event_types {dialect.use_index("PRIMARY")}
        WHERE {dialect.in_list("type", "text")}
    """
    wanted = await session.select("type", rest, tuple(sorted(types)))
    return frozenset(type for (type,) in wanted)


async def announce(session: Session, events: Sequence[Event]) -> None:
    """Publish those whose types are wanted, as of their own time."""
    if not events:
        return
    wanted = await wanted_of(session, {event.type for event in events})
    if rows := [new_row(event, event.time) for event in events if event.type in wanted]:
        await publish(session, rows)


async def announce_ends(
    session: Session, ended: Sequence[Job], wanted: Collection[str], now: int
) -> None:
    """Publish the events about these ended jobs whose types are wanted."""
    made = (end_event(job, wanted) for job in ended)
    rows = [new_row(event, instant(now)) for event in made if event is not None]
    if rows:
        await publish(session, rows)
