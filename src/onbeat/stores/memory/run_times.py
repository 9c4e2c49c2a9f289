"""The jobs of each schedule by run time."""

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from itertools import islice

from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.job import Job
from onbeat.model.page import OccurrenceFilter
from onbeat.stores.memory.sorted_keys import SortedKeys

ByRunTime = SortedKeys[tuple[datetime, datetime, JobId]]


class RunTimes:
    """Those that have ended, and the others; jobs of one run time are in the order of due times."""

    def __init__(self) -> None:
        self.keys: dict[tuple[ScheduleId, bool], ByRunTime] = defaultdict(SortedKeys)

    def add(self, job: Job) -> None:
        if job.schedule_id is not None:
            self.keys[job.schedule_id, job.is_final].add((job.run_time, job.due_at, job.id))

    def discard(self, job: Job) -> None:
        if job.schedule_id is not None:
            self.keys[job.schedule_id, job.is_final].discard((job.run_time, job.due_at, job.id))

    def page(self, filter: OccurrenceFilter) -> Iterator[JobId]:
        """The latest first."""
        keys = self.keys.get((filter.schedule_id, filter.ended), ByRunTime())
        chosen = islice(reversed(keys), filter.offset, filter.offset + filter.limit)
        return (id for _, _, id in chosen)
