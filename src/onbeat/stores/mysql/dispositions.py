"""Which occurrences have their disposition, and new ones."""

from bisect import bisect_left, insort
from collections.abc import Sequence

from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.job import Job
from onbeat.model.plan import Plan, Skip
from onbeat.stores.mysql.transaction import Transaction
from onbeat.stores.sql.values import micros

DispositionRow = tuple[ScheduleId, int, int, JobId | None, str | None]

Stretch = tuple[ScheduleId, int, int]
"""From an instant to another, both included."""

STRETCHES_MAX = 200  # looked up by one statement


class Runs:
    """What is stored for some stretches of time, and in `new` what is to be added.

    An occurrence is covered by the first run that ends at it or later, if that begins in time.
    """

    def __init__(self) -> None:
        self.new: list[DispositionRow] = []
        self._ends: dict[ScheduleId, list[tuple[int, int]]] = {}

    def add(self, id: ScheduleId, first: int, last: int) -> None:
        insort(self._ends.setdefault(id, []), (last, first))

    def take_job(self, id: ScheduleId, job: Job) -> bool:
        """Whether the job's occurrence had no disposition yet; it is then the job's."""
        assert job.occurrence is not None, "a planned job has an occurrence"
        at = micros(job.occurrence)
        return self.take((id, at, at, job.id, None))

    def take_skip(self, id: ScheduleId, skip: Skip) -> None:
        """Unless its first instant has a disposition already."""
        self.take((id, micros(skip.first), micros(skip.last), None, skip.reason))

    def take(self, row: DispositionRow) -> bool:
        """False where its first instant has one already. It ends where the next one begins."""
        id, first, last, job_id, reason = row
        ends = self._ends.get(id, [])
        place = bisect_left(ends, (first, -(2**63)))
        if place < len(ends):
            last = min(last, ends[place][1] - 1)
        if last < first:
            return False
        self.add(id, first, last)
        self.new.append((id, first, last, job_id, reason))
        return True


async def read_runs(transaction: Transaction, stretches: Sequence[Stretch]) -> Runs:
    """Those stored that touch any of the stretches."""
    runs = Runs()
    for start in range(0, len(stretches), STRETCHES_MAX):
        part = stretches[start : start + STRETCHES_MAX]
        sql = " UNION ALL ".join(
            [
                """
                (SELECT schedule_id, first, last
                 FROM dispositions
                 WHERE schedule_id = %s AND last >= %s AND first <= %s)
                """
            ]
            * len(part)
        )
        for id, first, last in await transaction.rows(sql, [one for row in part for one in row]):
            runs.add(id, first, last)
    return runs


def stretch_of(plan: Plan) -> Stretch | None:
    """Around all its jobs and skips."""
    instants = [job.occurrence for job in plan.jobs if job.occurrence is not None]
    for skip in plan.skips:
        instants += [skip.first, skip.last]
    if not instants:
        return None
    return plan.schedule_id, micros(min(instants)), micros(max(instants))


async def add_dispositions(transaction: Transaction, rows: Sequence[DispositionRow]) -> None:
    await transaction.insert(
        """
        INSERT INTO dispositions (schedule_id, first, last, job_id, reason)
        VALUES (%s, %s, %s, %s, %s)
        """,
        rows,
    )
