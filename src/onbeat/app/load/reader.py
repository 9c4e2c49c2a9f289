"""Reads what became of the jobs of a load, page by page."""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec

from onbeat.app.backend import Backend
from onbeat.model.errors import Invalid, Unavailable
from onbeat.model.job import JobState
from onbeat.model.limits import PAGE_LIMIT_MAX
from onbeat.model.load import LoadPlan
from onbeat.operations.tables.fleet import QUEUE_SHOW, WORKER_LIST
from onbeat.operations.tables.jobs import JOB_LIST
from onbeat.operations.tables.schedules import TIMELINE_SHOW
from onbeat.ports.clock import Clock
from onbeat.rules.load_tally import LoadEnds
from onbeat.wire.jobs import JobInfo
from onbeat.wire.load_marks import load_filter, sent_after
from onbeat.wire.requests import ListJobs, ListWorkers, QueueByName
from onbeat.wire.timeline import ShowTimeline

LOOK_AGAIN = 0.5
PROBES = 5
OLDER = timedelta(minutes=1)
PAGE_BYTES = 4_194_304
JOB_BYTES = 1_000
"""A job in an answer without its arguments."""


class QueueCounts(msgspec.Struct, frozen=True):
    """Jobs of the queue of a load."""

    waiting: int
    running: int


class ClockDifference(msgspec.Struct, frozen=True):
    """Seconds that the clock of the service is ahead of this one, wrong by `error` at most."""

    seconds: float
    error: float


class LoadReader:
    """Reads by `plan.queue` and the marks of the run."""

    def __init__(self, backend: Backend, plan: LoadPlan) -> None:
        self.backend = backend
        self.plan = plan

    async def check_queue(self) -> None:
        """Raises `Invalid` where the figures would be those of other jobs, too."""
        counts = await self.counts()
        if counts.waiting or counts.running:
            raise Invalid(
                f"queue {self.plan.queue} has {counts.waiting} waiting and {counts.running} running"
                " jobs, which would be measured too; let them end, cancel them, or give another"
                " --queue",
                "queue",
            )

    async def is_served(self) -> bool:
        """Whether some live worker runs the task on the queue."""
        answer = await self.backend.call(WORKER_LIST, ListWorkers(jobs=0))
        return any(
            worker.alive
            and self.plan.task in worker.tasks
            and (not worker.queues or self.plan.queue in worker.queues)
            for worker in answer.workers
        )

    async def counts(self) -> QueueCounts:
        answer = await self.backend.call(QUEUE_SHOW, QueueByName(self.plan.queue))
        return QueueCounts(answer.waiting, answer.running)

    async def clock_difference(self, clock: Clock) -> ClockDifference:
        """By the quickest of a few requests, as NTP has it: half of its time is the error."""
        found: list[ClockDifference] = []
        for _ in range(PROBES):
            began, before = clock.monotonic(), clock.now()
            # A schedule that is not there: the answer is as short as it can be.
            answer = await self.backend.call(TIMELINE_SHOW, ShowTimeline(q=self.plan.run))
            error = (clock.monotonic() - began) / 2
            there = before + timedelta(seconds=error)
            found.append(ClockDifference((answer.now - there).total_seconds(), error))
        return min(found, key=lambda one: one.error)

    async def wait_for_ends(
        self, clock: Clock, stop: asyncio.Event, on_counts: Callable[[QueueCounts], None]
    ) -> None:
        """Wait until no job of the queue is live, for `plan.patience` at most.

        A service that does not answer may be starting again; raises `Unavailable` at the end.
        """
        deadline = clock.monotonic() + self.plan.patience
        while not stop.is_set():
            try:
                counts = await self.counts()
            except Unavailable:
                if clock.monotonic() >= deadline:
                    raise
            else:
                on_counts(counts)
                if not counts.waiting and not counts.running:
                    return
            if clock.monotonic() >= deadline:
                return
            await asyncio.sleep(LOOK_AGAIN)

    async def read_ends(self, ends: LoadEnds, start: datetime) -> None:
        """Count every job of the run once; `start` is by the clock of the service."""
        filter = load_filter(self.plan.run)
        limit = max(1, min(PAGE_LIMIT_MAX, PAGE_BYTES // (JOB_BYTES + self.plan.payload)))
        cursor: str | None = None
        while True:
            request = ListJobs(
                queue=self.plan.queue,
                label=filter,
                limit=limit,
                cursor=cursor,
            )
            page = await self.backend.call(JOB_LIST, request)
            for job in page.jobs:
                count(ends, job, start)
            cursor = page.cursor
            if cursor is None or is_before(page.searched_to, start):
                return


def is_before(searched_to: object, start: datetime) -> bool:
    """Whether a search has come to jobs that are surely older than the load."""
    return isinstance(searched_to, datetime) and searched_to < start - OLDER


def count(ends: LoadEnds, job: JobInfo, start: datetime) -> None:
    if not ends.add(job.state) or job.finished_at is None:
        return
    ends.time(start + sent_after(job), job.run_at, job.started_at, job.finished_at)
    if job.state is not JobState.SUCCEEDED:
        ends.fail(f"{job.state}: {first_line(job)}")


def first_line(job: JobInfo) -> str:
    """The last line of a traceback names the error; without one it is the reason."""
    lines = (job.error or job.reason or "").strip().splitlines()
    return lines[-1][:200] if lines else "no reason given"
