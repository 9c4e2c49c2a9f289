"""What must hold of a store after whatever was done to its processes."""

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

from onbeat import Onbeat
from onbeat.model.attempt import Attempt, OutcomeName
from onbeat.model.ids import JobId
from onbeat.model.job import Job, JobState
from onbeat.model.limits import LOST_MAX
from onbeat.model.page import JobFilter
from onbeat.model.schedule import Schedule
from onbeat.ports.store import Disposition

TOGETHER = 100  # reads at once: each waits in line for a connection, and not for long


def batched(ids: list[JobId], count: int) -> list[list[JobId]]:
    return [ids[start : start + count] for start in range(0, len(ids), count)]


def lines(path: Path) -> list[list[str]]:
    """The whole lines of a journal; the last may have been cut off."""
    if not path.exists():
        return []
    return [line.split() for line in path.read_text().split("\n")[:-1]]


class Invariants:
    """A store read once, and the journals beside it."""

    def __init__(self, place: Path, *, whole: bool = True) -> None:
        self.place = place
        self.whole = whole
        self.jobs: dict[JobId, Job] = {}
        self.attempts: dict[JobId, list[Attempt]] = {}
        self.schedule: Schedule | None = None
        self.dispositions: list[Disposition] = []
        asyncio.run(self.read())

    async def read(self) -> None:
        beat = Onbeat((self.place / "store").read_text())
        await beat.backend.open()
        try:
            before = None
            while True:
                page = await beat.backend.store.jobs(JobFilter(limit=1000, before=before))
                self.jobs |= {job.id: job for job in page.items}
                if len(page.items) < 1000:
                    break
                before = page.items[-1].id
            if not self.whole:
                return
            for ids in batched(list(self.jobs), TOGETHER):
                answer = await asyncio.gather(*map(beat.backend.store.attempts, ids))
                self.attempts |= dict(zip(ids, map(list, answer), strict=True))
            self.schedule = await beat.backend.store.schedule_by_key("fire")
            if self.schedule is not None:
                far = timedelta(days=1)
                self.dispositions = list(
                    await beat.backend.store.dispositions(
                        self.schedule.id,
                        self.schedule.created_at - far,
                        datetime.now(UTC) + far,
                    )
                )
            assert all(
                finding.ok
                for finding in await beat.backend.store.doctor()
                if "integrity" in finding.name
            )
        finally:
            await beat.aclose()

    @classmethod
    def glance(cls, place: Path) -> Self:
        """The jobs alone."""
        return cls(place, whole=False)

    def is_quiet(self, since: datetime) -> bool:
        """Whether all jobs have ended but the occurrences that were not due by then."""
        return all(
            job.is_final or (job.occurrence is not None and job.occurrence > since)
            for job in self.jobs.values()
        )

    def check_accepted(self) -> None:
        """No job that was acknowledged is missing, and none that is there has gone astray."""
        accepted = {id for (id,) in lines(self.place / "accepted")}
        assert accepted, "the producer got something accepted"
        assert accepted <= self.jobs.keys(), "an accepted job is lost"
        works = [job for job in self.jobs.values() if job.schedule_id is None]
        others = [job for job in works if job.state is not JobState.SUCCEEDED]
        # One that was running at three kills or more may have been given up, and says so.
        astray = [job for job in others if not is_poison(job)]
        answer = [(job.state, job.reason, job.error, job.lost, job.released) for job in astray]
        assert not astray, f"jobs have not come to their end: {answer}"
        assert len(others) * 20 < len(works)

    def check_attempts(self) -> None:
        """Attempts agree with the job that they belong to, and with what the handlers wrote down."""
        began, ended = (
            {(id, int(token)) for id, _, token, _ in lines(self.place / name)}
            for name in ("began", "ended")
        )
        for id, job in self.jobs.items():
            outcomes = Counter(attempt.outcome for attempt in self.attempts[id])
            tokens = [attempt.token for attempt in self.attempts[id]]
            assert tokens == sorted(set(tokens)), "tokens rise"
            assert all(token <= job.token for token in tokens)
            assert job.lost == outcomes[OutcomeName.LOST]
            assert job.released == outcomes[OutcomeName.RELEASED]
            if job.state is JobState.SUCCEEDED:
                assert outcomes[OutcomeName.SUCCEEDED] == 1, "a job succeeds once"
                assert tokens[-1] == job.token
                assert job.attempt == len(tokens) - job.released - outcomes[OutcomeName.SNOOZED]
                if job.schedule_id is None:
                    assert (id, job.token) in began & ended, "it succeeded by its last attempt"
        written = Counter((id, token) for id, _, token, _ in lines(self.place / "began"))
        assert set(written.values()) <= {1}, "no token is given out twice"

    def check_occurrences(self) -> None:
        """Each occurrence from the first to the last has exactly one disposition."""
        wanted, result = occurrences(self, timedelta(seconds=0.2))
        assert len(wanted) > 5, "the schedule has fired"
        assert result == wanted, "an occurrence is missing from the ledger, or is there twice"
        by_occurrence = Counter(
            job.occurrence for job in self.jobs.values() if job.occurrence is not None
        )
        assert set(by_occurrence.values()) == {1}, "an occurrence has two jobs"
        fired = Counter((at, token) for at, _, token, _ in lines(self.place / "fired"))
        assert set(fired.values()) == {1}, "no attempt of an occurrence ran twice"

    def check_runs_of_occurrences(self) -> None:
        """Every occurrence due ran; one that ran again says by its attempts why."""
        runs = Counter(id for _, id, _, _ in lines(self.place / "fired"))
        for job in self.jobs.values():
            if job.occurrence is not None and job.state is JobState.SUCCEEDED:
                assert 1 <= runs[job.id] <= 1 + job.lost + job.released


def is_poison(job: Job) -> bool:
    """Given up after several losses, of which some were alone; its reason says so."""
    return job.lost >= LOST_MAX and (job.reason or "").startswith("poison: its worker died")


def occurrences(books: Invariants, step: timedelta) -> tuple[list[datetime], list[datetime]]:
    """The instants of the schedule as far as it is planned, and those with a disposition."""
    assert books.schedule is not None
    begin = datetime.fromisoformat(books.schedule.recurrence.anchor)
    planned = books.schedule.planned_through
    first = begin + ((books.schedule.created_at - begin) // step + 1) * step
    wanted = [first + n * step for n in range((planned - first) // step + 1)]
    return wanted, [one for row in books.dispositions for one in covered(row, wanted)]


def covered(row: Disposition, wanted: list[datetime]) -> list[datetime]:
    if row.first == row.last:
        return [row.first]
    return [one for one in wanted if row.first <= one <= row.last]
