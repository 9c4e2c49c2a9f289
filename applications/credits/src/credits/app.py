"""The tasks and schedules of the house-keeping.

A job's time is its occurrence, or when it was due: so a run that comes late, or again, means the
same month and the same day.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from credits.adjustments import RefusedError
from credits.config import Config
from credits.database import Database, open_database
from credits.purchases import Payment, book, clean_up, stale_before
from credits.topup import Portion, ToppedUp, is_done, month_of, next_portion, top_up
from credits.uploads.folder import remove_empty_folders
from credits.uploads.removals import forget_block, remove_noted
from credits.uploads.sweep import Swept, TooManyError, sweep
from onbeat import AsyncTask, Call, Context, Fail, Onbeat, Retry, daily, first_of_month

TOP_UP: Final = "credits.monthly_top_up"
CLEAN_UP: Final = "credits.clean_up_purchases"
SWEEP: Final = "credits.sweep_uploads"
RETRY: Final = Retry(attempts_max=3, backoff="exponential", delay="2s", jitter=False)
"""Three tries; the waits are 2 and 4 seconds."""


@dataclass(frozen=True)
class SweptFolder:
    """What a run of the sweep did."""

    swept: Swept
    folders: int


@dataclass(frozen=True)
class Program:
    """The tasks that the game sends are `book_payment` and, by `delete_block`, `remove_noted`."""

    beat: Onbeat
    config: Config
    database: Database
    book_payment: AsyncTask[[Payment], bool]
    remove_noted: AsyncTask[[], dict[str, int]]

    async def delete_block(self, block: str, at: datetime) -> None:
        """Delete a block with its uploads; their files follow within a minute.

        A crash between the two leaves notes, which the next sweep follows.
        """
        async with self.database.session() as session, session.transaction():
            await forget_block(session, block, self.config, at)
        # All that is deleted in one minute is one pass over the blocks that are left.
        minute = at.replace(second=0, microsecond=0) + timedelta(minutes=1)
        once = self.remove_noted.options(run_at=minute, unique=f"remove uploads {minute:%H:%M}")
        await once.asend()


def build(config: Config) -> Program:
    beat, database = Onbeat(config.jobs_store), open_database(config.database)
    add_top_up(beat, config, database)
    add_clean_up(beat, config, database)
    add_sweep(beat, config, database)
    return Program(
        beat,
        config,
        database,
        payment_task(beat, database),
        removal_task(beat, config, database),
    )


def time_of(context: Context) -> datetime:
    return context.occurrence or context.due_at


def add_top_up(beat: Onbeat, config: Config, database: Database) -> None:
    zone = config.zone

    @beat.task("credits.top_up_portion", retry=RETRY, timeout="5m")
    async def top_up_portion(
        context: Context, month: datetime, after: str, last: str, *, final: bool
    ) -> ToppedUp:
        portion = Portion(after, last, final)
        async with database.session() as session:
            result = await top_up(session, month_of(month, zone), portion, context.due_at)
        context.log.info("topped up %d users by %d credits", result.users, result.credits)
        return result

    @beat.schedule(
        first_of_month("00:00", tz=zone), key=TOP_UP, name="Monthly Credit Top-Up", overlap="skip"
    )
    @beat.task(TOP_UP, retry=RETRY, timeout="1h")
    async def monthly_top_up(context: Context) -> AsyncIterator[Call[ToppedUp]]:
        month = month_of(time_of(context), zone)
        after = str(context.saved or "")
        async with database.session() as session:
            if await is_done(session, month.name):
                return
            while portion := await next_portion(session, after):
                call = top_up_portion.options(unique=f"top-up {month.name} {portion.after}")
                yield call.call(month.begin, portion.after, portion.last, final=portion.final)
                after = portion.last
                context.save(after)


def add_clean_up(beat: Onbeat, config: Config, database: Database) -> None:
    @beat.schedule(
        daily("00:00", tz=config.zone),
        key=CLEAN_UP,
        name="Stale Credit Purchase Cleanup",
        overlap="skip",
    )
    @beat.task(CLEAN_UP, retry=RETRY, timeout="10m")
    async def clean_up_purchases(context: Context) -> int:
        before = stale_before(time_of(context), config)
        async with database.session() as session:
            deleted = await clean_up(session, before)
        context.log.info(
            "Cleaned up stale purchases", extra={"deleted_count": deleted, "cutoff_date": before}
        )
        return deleted


def add_sweep(beat: Onbeat, config: Config, database: Database) -> None:
    @beat.schedule(
        daily("00:00", tz=config.zone), key=SWEEP, name="Orphaned Uploads Cleanup", overlap="skip"
    )
    @beat.task(SWEEP, retry=RETRY, timeout="2h")
    async def sweep_uploads(context: Context) -> SweptFolder:
        at = time_of(context)
        try:
            async with database.session() as session:
                swept = await sweep(session, config, at)
        except TooManyError as error:
            raise Fail(str(error), retryable=False) from error
        folders = await asyncio.to_thread(
            remove_empty_folders, config.uploads, at, lambda: context.cancelled
        )
        context.log.info("swept uploads: %s, folders: %d", swept, folders)
        return SweptFolder(swept, folders)


def payment_task(beat: Onbeat, database: Database) -> AsyncTask[[Payment], bool]:
    @beat.task("credits.book_payment", retry=Retry(attempts_max=20, delay="2s"))
    async def book_payment(context: Context, payment: Payment) -> bool:
        async with database.session() as session:
            try:
                return await book(session, payment, context.due_at)
            except RefusedError as error:
                raise Fail(str(error), retryable=False) from error

    return book_payment


def removal_task(beat: Onbeat, config: Config, database: Database) -> AsyncTask[[], dict[str, int]]:
    @beat.task("credits.remove_noted_uploads", retry=RETRY, timeout="1h")
    async def remove_noted_uploads(context: Context) -> dict[str, int]:
        async with database.session() as session:
            return dict(await remove_noted(session, config, context.due_at))

    return remove_noted_uploads
