"""The limits of queues and groups during one claim."""

from datetime import datetime

from onbeat.model.job import Job
from onbeat.model.queue import NO_LIMITS
from onbeat.rules import limits
from onbeat.rules.fairness import GroupKey
from onbeat.stores.memory.tables import ReadyList, Tables


class ClaimLimits:
    """The limits of the tables, by `rules.limits`, and the turns of groups."""

    def __init__(self, tables: Tables, now: datetime) -> None:
        self.tables = tables
        self.now = now
        self.within = limits.Admission(tables.limits, tables.running, tables.meters, now)

    def admits(self, ready_list: ReadyList) -> bool:
        return self.within.admits(ready_list.queue, ready_list.group)

    def take(self, job: Job) -> None:
        """Count the job as started."""
        self.within.take(job.queue, job.group)
        if self.is_fair(job.queue):
            self.tables.put_turn(GroupKey(job.queue, job.priority, job.group or ""))

    def is_fair(self, queue: str) -> bool:
        return self.tables.limits.get(queue, NO_LIMITS).fair

    def turn(self, ready_list: ReadyList) -> int:
        """The turn of the group's last job; the least is next."""
        group_key = GroupKey(ready_list.queue, ready_list.priority, ready_list.group or "")
        return self.tables.turns.get(ready_list.queue, {}).get(group_key, 0)

    def again_at(self, ready_list: ReadyList) -> datetime | None:
        """When a rate limit lets the list go on; None if it goes on now or when a job ends."""
        if ready_list.queue not in self.tables.limits:
            return None
        return self.within.reopens_at(ready_list.queue, ready_list.group)

    def keep(self) -> None:
        """Store the levels of the buckets that were drawn on."""
        for queue, group, full_at in self.within.drawn_buckets():
            self.tables.meters[queue, group] = full_at
