"""Stored and new dispositions of occurrences."""

from bisect import bisect_left, insort
from collections.abc import Sequence

from onbeat.model.ids import ScheduleId
from onbeat.model.job import Job
from onbeat.model.plan import Plan, Skip
from onbeat.stores.mysql.transaction import Transaction
from onbeat.stores.sql.values import micros
from onbeat.stores.sql.verbs.dispositions import DispositionRow, occurrence_of, row_of_skip

Stretch = tuple[ScheduleId, int, int]
"""A schedule and a span from first to last instant, both included."""

STRETCHES_MAX = 200  # looked up in one statement


class DispositionRuns:
    """The stored dispositions of some time spans, and in `new` those to be added.

    An occurrence is covered by the first run that ends at it or later, if that run begins at it or
    earlier.
    """

    def __init__(self) -> None:
        self.new: list[DispositionRow] = []
        self._ends: dict[ScheduleId, list[tuple[int, int]]] = {}

    def add(self, id: ScheduleId, first: int, last: int) -> None:
        insort(self._ends.setdefault(id, []), (last, first))

    def take_job(self, id: ScheduleId, job: Job) -> bool:
        """Whether the job's occurrence had no disposition yet; it is then the job's."""
        at = occurrence_of(job)
        return self.take((id, at, at, job.id, None))

    def take_skip(self, id: ScheduleId, skip: Skip) -> None:
        """Unless its first instant has a disposition already."""
        self.take(row_of_skip(id, skip))

    def take(self, row: DispositionRow) -> bool:
        """Add the run up to the start of the next one. False if its first instant is taken."""
        id, first, last, job_id, reason = row
        ends = self._ends.get(id, [])
        dsn = bisect_left(ends, (first, -(2**63)))
        if dsn < len(ends):
            last = min(last, ends[dsn][1] - 1)
        if last < first:
            return False
        self.add(id, first, last)
        self.new.append((id, first, last, job_id, reason))
        return True


async def read_runs(transaction: Transaction, stretches: Sequence[Stretch]) -> DispositionRuns:
    """The stored runs that overlap any of the spans."""
    runs = DispositionRuns()
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


def time_range_of(plan: Plan) -> Stretch | None:
    """The span of all its jobs and skips."""
    instants = [job.occurrence for job in plan.jobs if job.occurrence is not None]
    for skip in plan.skips:
        instants += [skip.first, skip.last]
    if not instants:
        return None
    return plan.schedule_id, micros(min(instants)), micros(max(instants))
