"""Rows that nobody needs any more go, in portions, each of which is a transaction of its own.

`add_upkeep(beat, database, zone)` declares two tasks, each with a schedule of the same key:
`upkeep.clean_up_users` daily at 03:00 and `upkeep.remove_logs` daily at 03:30 of `zone`. Both take
`at`, the time that they count from, by default that of their occurrence.

A user who owns a workspace is never deleted, as invoices and cards name the owner.
"""

import logging
from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from asyncmy.errors import IntegrityError

from backoffice.database import Database, Session
from backoffice.occurrences import time_of
from onbeat import Context, Onbeat, Retry, Task, daily

log = logging.getLogger(__name__)

CLEAN_UP_USERS: Final = "upkeep.clean_up_users"
REMOVE_LOGS: Final = "upkeep.remove_logs"

USERS_KEPT: Final = timedelta(days=7)
"""So long a user may take to set a password."""
LOGS_KEPT: Final = timedelta(days=7)
PORTION: Final = 1_000
RETRY: Final = Retry(attempts_max=5, delay="10s")
FIELDS: Final = {"component": "upkeep"}
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class CleanedUp:
    """Counts of users. `owners` have a workspace; `refused` are named by rows that must stay."""

    deleted: int = 0
    owners: int = 0
    refused: int = 0

    def __add__(self, other: "CleanedUp") -> "CleanedUp":
        return CleanedUp(
            self.deleted + other.deleted, self.owners + other.owners, self.refused + other.refused
        )


@dataclass(frozen=True)
class Upkeep:
    """Both tasks, which take the time that they count from."""

    clean_up_users: Task[[datetime | None], Coroutine[Any, Any, CleanedUp], CleanedUp]
    remove_logs: Task[[datetime | None], Coroutine[Any, Any, int], int]


def add_upkeep(beat: Onbeat, database: Database, zone: str) -> Upkeep:
    """Declare both tasks, on days of `zone`."""

    @beat.schedule(daily("03:00", tz=zone), key=CLEAN_UP_USERS, overlap="skip")
    @beat.task(CLEAN_UP_USERS, retry=RETRY, timeout="2h")
    async def clean_up_users_daily(context: Context, at: datetime | None = None) -> CleanedUp:
        before = time_of(context, at) - USERS_KEPT
        async with database.session() as session:
            result = await clean_up_users(session, before, context.progress)
        context.log.info("users without a password since %s: %s", before, result, extra=FIELDS)
        return result

    @beat.schedule(daily("03:30", tz=zone), key=REMOVE_LOGS, overlap="skip")
    @beat.task(REMOVE_LOGS, retry=RETRY, timeout="2h")
    async def remove_logs_daily(context: Context, at: datetime | None = None) -> int:
        before = time_of(context, at) - LOGS_KEPT
        async with database.session() as session:
            removed = await remove_logs(session, before, context.progress)
        context.log.info("removed %d log lines from before %s", removed, before, extra=FIELDS)
        return removed

    return Upkeep(clean_up_users_daily, remove_logs_daily)


async def clean_up_users(
    session: Session, before: datetime, progress: Callable[[float], None], portion: int = PORTION
) -> CleanedUp:
    """Delete users who since `before` or longer have no password, and their memberships."""
    result, seen = CleanedUp(), 0
    after = (EPOCH, 0)
    while users := await users_without_password(session, before, after, portion):
        ids = [id for _, id in users]
        try:
            result += await delete_users(session, ids)
        except IntegrityError:
            result += await delete_one_by_one(session, ids)
        after = users[-1]
        seen += len(users)
        progress(seen)
    return result


async def users_without_password(
    session: Session, before: datetime, after: tuple[datetime, int], portion: int
) -> Sequence[tuple[datetime, int]]:
    """The next ones behind `after`, each with the time since which a password is missing."""
    since, id = after
    rows = await session.rows(
        "SELECT needs_set_password_date, id FROM users"
        " WHERE needs_password_set = 1 AND needs_set_password_date <= ?"
        " AND (needs_set_password_date > ? OR needs_set_password_date = ? AND id > ?)"
        " ORDER BY needs_set_password_date, id LIMIT ?",
        before,
        since,
        since,
        id,
        portion,
    )
    return [(since, int(id)) for since, id in rows]


async def delete_users(session: Session, ids: Sequence[int]) -> CleanedUp:
    """In one transaction. Who has set a password meanwhile stays, and is not counted."""
    async with session.transaction():
        waiting = await those(
            session, "SELECT id FROM users WHERE id IN (?) AND needs_password_set = 1", ids
        )
        owners = await those(
            session, "SELECT DISTINCT creator_id FROM workspaces WHERE creator_id IN (?)", waiting
        )
        gone = sorted(waiting - owners)
        await session.many("DELETE FROM workspaces_users WHERE user_id = ?", [(id,) for id in gone])
        await session.many("DELETE FROM users WHERE id = ?", [(id,) for id in gone])
    return CleanedUp(deleted=len(gone), owners=len(owners))


async def those(session: Session, sql: str, ids: Collection[int]) -> set[int]:
    """The ids that the statement answers, locked. `ids` take the place of its one value."""
    if not ids:
        return set()
    marks = ", ".join("?" * len(ids))
    rows = await session.rows(f"{sql.replace('?', marks)} FOR UPDATE", *ids)
    return {int(id) for (id,) in rows}


async def delete_one_by_one(session: Session, ids: Sequence[int]) -> CleanedUp:
    """After a portion with a user whom other rows need: the others go."""
    result = CleanedUp()
    for id in ids:
        try:
            result += await delete_users(session, [id])
        except IntegrityError as error:
            log.warning("user %d stays, as other rows need it: %s", id, error)
            result += CleanedUp(refused=1)
    return result


async def remove_logs(
    session: Session, before: datetime, progress: Callable[[float], None], portion: int = PORTION
) -> int:
    """Delete the lines of logs from before that time, the oldest first; how many."""
    removed = 0
    while rows := await session.run(
        "DELETE FROM debugger_logs WHERE created_at < ? ORDER BY created_at LIMIT ?",
        before,
        portion,
    ):
        removed += rows
        progress(removed)
    return removed
