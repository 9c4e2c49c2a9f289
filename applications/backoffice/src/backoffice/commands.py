"""The one-shot commands: each runs schedules once, by the running processes, and waits."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from onbeat import Onbeat

DONE, FAILED, USAGE, NOT_IN_TIME = 0, 1, 2, 4
LOOK_PERIOD: Final = 0.5
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
    result: Any
    error: str


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a command did. `pending` are jobs that were still there at its end."""

    command: str
    code: int
    seconds: float
    jobs: Sequence[Ended]
    pending: int


class Execution:
    """One run of a command. What has not ended in time goes on without it."""

    def __init__(self, beat: Onbeat, name: str, command: Command, show: Show) -> None:
        self.beat = beat
        self.name = name
        self.command = command
        self.show = show
        self.shown = ""
        self.ended: list[Ended] = []
        self.pending = 0

    async def finish(self, timeout: float) -> Report:
        began = time.monotonic()
        try:
            async with asyncio.timeout(timeout):
                await self.send_and_wait()
            code = FAILED if any(job.error for job in self.ended) else DONE
        except TimeoutError:
            code = NOT_IN_TIME
        return Report(
            command=self.name,
            code=code,
            seconds=round(time.monotonic() - began, 3),
            jobs=self.ended,
            pending=self.pending,
        )

    async def send_and_wait(self) -> None:
        sent = [(key, await self.beat.schedules.atrigger(key)) for key in self.command.schedules]
        for number, (key, id) in enumerate(sent):
            self.pending = len(sent) - number
            self.ended.append(await self.end_of(key, id))
        self.pending = 0
        if self.command.drained and not any(job.error for job in self.ended):
            await self.drain(self.command.drained)

    async def end_of(self, name: str, id: str) -> Ended:
        while True:
            job = await self.beat.jobs.aget(id)
            done = f", {job.progress.done:g} so far" if job.progress else ""
            self.say(f"{name}: {job.state}{done}")
            if job.state in ENDS:
                is_done = job.state == "succeeded"
                error = "" if is_done else (job.error or job.reason or job.state)
                return Ended(name=name, result=job.result, error=error)
            await asyncio.sleep(LOOK_PERIOD)

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
