"""What a status page shows: the schedules, their last runs and the credits of the month."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from credits.app import CLEAN_UP, SWEEP, TOP_UP, Program
from credits.topup import is_done, month_of

FAILED_MAX: Final = 20


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run of a schedule. `error` is the last of its attempts; `result` is what it returned."""

    id: str
    state: str
    due_at: datetime
    finished_at: datetime | None
    attempt: int
    reason: str | None
    error: str | None
    result: Any


@dataclass(frozen=True, kw_only=True)
class Job:
    """A schedule. `next_at` is None while it is paused."""

    key: str
    name: str
    rule: str
    status: str
    next_at: datetime | None
    runs: list[Run]


@dataclass(frozen=True, kw_only=True)
class Month:
    """The top-up of this month. `done` is when all users have been gone through."""

    month: str
    users: int
    credits: int
    done: bool


@dataclass(frozen=True, kw_only=True)
class Status:
    """`failed` are jobs of any kind that ended without success; `files_to_remove` are noted."""

    jobs: list[Job]
    month: Month
    files_to_remove: int
    failed: list[Run]


async def status_of(program: Program, at: datetime, runs: int = 5) -> Status:
    """Works on the store of the jobs, and through a service at ONBEAT_STORE=http://HOST:PORT."""
    month, files = await credits_and_files(program, at)
    return Status(
        jobs=[await job_of(program, key, runs) for key in (TOP_UP, CLEAN_UP, SWEEP)],
        month=month,
        files_to_remove=files,
        failed=await runs_of(program, FAILED_MAX, state="failed"),
    )


async def job_of(program: Program, key: str, runs: int) -> Job:
    schedule = await program.beat.schedules.aget(key)
    return Job(
        key=key,
        name=schedule.name,
        rule=schedule.recurrence,
        status=schedule.status,
        next_at=schedule.next_at,
        runs=await runs_of(program, runs, schedule_id=schedule.id),
    )


async def runs_of(
    program: Program,
    limit: int,
    *,
    schedule_id: str | None = None,
    state: Literal["failed"] | None = None,
) -> list[Run]:
    jobs = await program.beat.jobs.alist(limit=limit, schedule_id=schedule_id, state=state)
    return [
        Run(
            id=job.id,
            state=job.state,
            due_at=job.run_at,
            finished_at=job.finished_at,
            attempt=job.attempt,
            reason=job.reason,
            error=job.error,
            result=job.to_dict()["result"],
        )
        for job in jobs
    ]


async def credits_and_files(program: Program, at: datetime) -> tuple[Month, int]:
    name = month_of(at, program.config.zone).name
    async with program.database.session() as session:
        ((users, credits),) = await session.rows(
            "SELECT coalesce(sum(users), 0), coalesce(sum(credits), 0)"
            " FROM credit_topup_portions WHERE period = ?",
            name,
        )
        done = await is_done(session, name)
        ((files,),) = await session.rows("SELECT count(*) FROM upload_removals")
    return Month(month=name, users=int(users), credits=int(credits), done=done), int(files)
