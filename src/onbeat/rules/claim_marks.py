"""Where claims begin to read in ready lists, and when they read these from the start.

A server that keeps deleted rows for somebody's old snapshot makes each claim read past all jobs
that were claimed since. A claimant therefore remembers for each list how far it has claimed, and
begins there. Jobs can still become ready behind such a mark: by a late commit, a release, an end
that they waited for. So it reads all lists from their start again, after as many claimed jobs as
make up for that, or after a multiple of the time that it takes. Where there is little to read past,
every claim reads from the start.
"""

from collections.abc import Hashable, Mapping, Sequence
from datetime import datetime
from typing import Final

from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.model.target import lane_of

ListKey = tuple[str, int, str]
"""The queue, priority and lane of a ready list."""
Position = tuple[datetime, JobId]
"""The place of a job in its list: its due time, and its id."""

PASSED_MIN: Final = 10_000  # a claimant that reads past fewer entries needs no marks
PASSED_PER_SECOND: Final = 5_000_000
PASSED_PER_JOB: Final = 8  # entries for each job claimed meanwhile: about 5 % of the server's time
REST_FULL: Final = 100  # multiples of the last read from the start, while claims are filled
REST_SHORT: Final = 4  # and where a claim brought less than asked
LISTS_MAX: Final = 200


class ClaimMarks:
    """The marks of one claimant. `now` is in seconds of a monotonic clock.

    `scope` is from where the claimant takes jobs: marks count only for the scope of the last read
    from the start.
    """

    __slots__ = ("claimed", "marks", "passed", "read_at", "scope")

    def __init__(self) -> None:
        self.scope: Hashable = None
        self.marks: dict[ListKey, Position | None] = {}
        self.read_at = 0.0
        self.passed = 0
        self.claimed = 0

    def lists(self, scope: Hashable, now: float) -> Mapping[ListKey, Position | None] | None:
        """The lists to read, each behind its mark if it has one; None to read from the start."""
        if not self.marks or scope != self.scope or self.is_read_due(now):
            return None
        return self.marks

    def is_read_due(self, now: float) -> bool:
        """Whether a claim may be filled and yet read from the start."""
        rest = REST_FULL * self.passed / PASSED_PER_SECOND
        return self.claimed * PASSED_PER_JOB >= self.passed or now >= self.read_at + rest

    @property
    def short_until(self) -> float:
        """When a claim that brought less than asked may read from the start."""
        return self.read_at + REST_SHORT * self.passed / PASSED_PER_SECOND

    def forget(self) -> None:
        self.marks = {}

    def note_read(self, scope: Hashable, lists: Sequence[ListKey], passed: int, now: float) -> None:
        """Note a read from the start, which found these lists and read past so many entries.

        A list that is empty now keeps its mark, as long as there are not too many.
        """
        if passed < PASSED_MIN or len(lists) > LISTS_MAX:
            self.marks = {}
            return
        known = self.marks if scope == self.scope else {}
        found = {key: known.get(key) for key in lists}
        emptied = {key: mark for key, mark in known.items() if mark is not None}
        every: dict[ListKey, Position | None] = {**emptied, **found}
        self.marks = found if len(every) > LISTS_MAX else every
        self.scope, self.read_at, self.passed, self.claimed = scope, now, passed, 0

    def note_claimed(self, jobs: Sequence[Job], *, from_start: bool, filled: bool) -> None:
        """Move the marks behind jobs that were claimed as the first of their lists.

        A read from the start that filled the claim has not read what is behind its last job, where
        an older mark may be.
        """
        if not self.marks:
            return
        self.claimed += len(jobs)
        last: dict[ListKey, Position] = {}
        for job in jobs:
            key, position = (job.queue, job.priority, lane_of(job.target)), (job.due_at, job.id)
            if key in self.marks and (key not in last or position > last[key]):
                last[key] = position
        for key, position in last.items():
            mark = self.marks[key]
            if mark is None or position > mark or (from_start and filled):
                self.marks[key] = position
