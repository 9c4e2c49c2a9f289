"""The one-shot commands: each runs schedules once, by the running processes, and waits."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from backoffice.database import Database
from backoffice.distributor import key_of
from backoffice.failed import declined_of
from backoffice.tasks import BILLING_QUEUE, CHARGE, RUN_LABEL, BillingTask
from onbeat import Onbeat

DONE, FAILED, USAGE, NOT_IN_TIME = 0, 1, 2, 4
LOOK_PERIOD: Final = 0.5
FAILED_MAX: Final = 10_000
"""So many failed bills of a run are looked at."""
SHOWN_MAX: Final = 20
ENDS: Final = frozenset({"succeeded", "failed", "cancelled"})

Show = Callable[[str], None]


@dataclass(frozen=True)
class Command:
    """Runs `schedules`, by their keys; then the queue `drained` has to become empty."""

    help: str
    schedules: Sequence[str]
    drained: str = ""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A job that the command sent; `error` is empty if it succeeded."""

    name: str
    id: str
    result: Any
    error: str


@dataclass(frozen=True, kw_only=True)
class Bills:
    """Of the bills that a command sent, those whose job has failed.

    `declined` have an invoice that the gateway refuses for good. `failed` have none, or one whose
    charge has no answer; the first of their errors are `errors`.
    """

    declined: int
    failed: int
    errors: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a command did. `pending` are jobs that were still there at its end."""

    command: str
    code: int
    seconds: float
    jobs: Sequence[Ended]
    pending: int
    bills: Bills | None = None


class Execution:
    """One run of a command. What has not ended in time goes on without it."""

    def __init__(
        self, beat: Onbeat, database: Database, name: str, command: Command, show: Show
    ) -> None:
        self.beat = beat
        self.database = database
        self.name = name
        self.command = command
        self.show = show
        self.shown = ""
        self.ended: list[Ended] = []
        self.pending = 0
        self.bills: Bills | None = None

    async def finish(self, timeout: float) -> Report:
        began = time.monotonic()
        try:
            async with asyncio.timeout(timeout):
                await self.send_and_wait()
            has_failed = any(job.error for job in self.ended) or (self.bills and self.bills.failed)
            code = FAILED if has_failed else DONE
        except TimeoutError:
            code = NOT_IN_TIME
        return Report(
            command=self.name,
            code=code,
            seconds=round(time.monotonic() - began, 3),
            jobs=self.ended,
            pending=self.pending,
            bills=self.bills,
        )

    async def send_and_wait(self) -> None:
        sent = [(key, await self.beat.schedules.atrigger(key)) for key in self.command.schedules]
        for number, (key, id) in enumerate(sent):
            self.pending = len(sent) - number
            self.ended.append(await self.end_of(key, id))
        self.pending = 0
        if self.command.drained and not any(job.error for job in self.ended):
            await self.drain(self.command.drained)
            if self.command.drained == BILLING_QUEUE:
                self.bills = await self.bills_of([job.id for job in self.ended])

    async def end_of(self, name: str, id: str) -> Ended:
        while True:
            job = await self.beat.jobs.aget(id)
            done = f", {job.progress.done:g} so far" if job.progress else ""
            self.say(f"{name}: {job.state}{done}")
            if job.state in ENDS:
                is_done = job.state == "succeeded"
                error = "" if is_done else (job.error or job.reason or job.state)
                return Ended(name=name, id=id, result=job.result, error=error)
            await asyncio.sleep(LOOK_PERIOD)

    async def bills_of(self, runs: Sequence[str]) -> Bills:
        jobs = [
            job
            for run in runs
            for job in await self.beat.jobs.alist(
                task=CHARGE, state="failed", label=f"{RUN_LABEL}:{run}", limit=FAILED_MAX
            )
        ]
        tasks = [BillingTask(**cast("Any", job.target.args)[0]) for job in jobs]
        declined = await declined_of(self.database, tasks)
        failed = [
            f"{key_of(task)}: {last_line(job.error or job.reason or '')}"
            for task, job in zip(tasks, jobs, strict=True)
            if key_of(task) not in declined
        ]
        return Bills(
            declined=len(jobs) - len(failed), failed=len(failed), errors=failed[:SHOWN_MAX]
        )

    async def drain(self, queue: str) -> None:
        while True:
            queues = await self.beat.queues.alist()
            counts = {each.name: each.waiting + each.running for each in queues}
            self.pending = counts.get(queue, 0)
            self.say(f"{queue}: {self.pending} to do")
            if not self.pending:
                return
            await asyncio.sleep(LOOK_PERIOD)

    def say(self, line: str) -> None:
        """Each line once, as long as nothing changes."""
        if line != self.shown:
            self.shown = line
            self.show(line)


def last_line(error: str) -> str:
    """What a traceback ends with."""
    return error.strip().rpartition("\n")[2]
