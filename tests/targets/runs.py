"""Attempts at HTTP targets, valid by default, and a runner that is closed again."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from onbeat.model.event import Event
from onbeat.model.ids import JobId, Token
from onbeat.model.job import Job, Progress
from onbeat.model.outcome import Outcome
from onbeat.model.target import HttpTarget
from onbeat.targets.http import HttpRunner
from onbeat.targets.http_options import HttpOptions
from onbeat.targets.ssrf_guard import Lookup

JOB_ID = JobId("01936f5c-7a00-7000-8000-000000000001")
SOON = timedelta(seconds=0.3)
LONG = timedelta(seconds=20)


class StillClock:
    def __init__(self) -> None:
        self.at = datetime.now(UTC)

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return 0.0


CLOCK = StillClock()


@dataclass
class ARun:
    job: Job
    deadline: datetime | None = None
    stop_reason: str | None = None
    events: Sequence[Event] = ()
    is_question: bool = False

    def note_progress(self, progress: Progress) -> None: ...

    def is_held(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    async def confirm(self) -> None: ...


def a_run(url: str, *, deadline: datetime | None = None, job: Any = (), **target: Any) -> ARun:
    made = Job(
        id=JOB_ID,
        target=HttpTarget(url=url, **target),
        created_at=CLOCK.at,
        due_at=CLOCK.at,
        attempt=1,
        token=Token(1),
        **dict(job),
    )
    return ARun(made, deadline)


@asynccontextmanager
async def a_runner(
    *, lookup: Lookup | None = None, private_allowed: bool = True, **options: Any
) -> AsyncIterator[HttpRunner]:
    options = {"timeout": LONG, "private_allowed": private_allowed, **options}
    runner = HttpRunner(CLOCK, HttpOptions(**options), lookup=lookup)
    await runner.open()
    try:
        yield runner
    finally:
        await runner.close()


async def outcome_at(url: str, *, run: Any = (), **options: Any) -> Outcome:
    async with a_runner(**options) as runner:
        return await runner.run(a_run(url, **dict(run)))


class FakeNames:
    """A resolver with answers of our own; each lookup of a host takes its next answer."""

    def __init__(self, **answers: Sequence[Sequence[str]]) -> None:
        self.answers = {name.replace("_", "."): list(each) for name, each in answers.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        answers = self.answers.get(host.removesuffix("."))
        if not answers:
            raise OSError("no such name")
        return answers.pop(0) if len(answers) > 1 else answers[0]
