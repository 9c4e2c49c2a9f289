"""Dispositions of occurrences: at most one for each schedule and instant."""

from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice

from msgspec.structs import replace

from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.plan import Skip
from onbeat.ports.store import Disposition

TICK = timedelta(microseconds=1)


def job_of(instant: datetime, id: JobId) -> Disposition:
    return Disposition(first=instant, last=instant, job_id=id, reason=None)


def skip_of(skip: Skip) -> Disposition:
    return Disposition(first=skip.first, last=skip.last, job_id=None, reason=skip.reason)


class DispositionTable:
    """The dispositions of each schedule, by instant; no two of one schedule overlap."""

    def __init__(self) -> None:
        self.pages: dict[ScheduleId, list[Disposition]] = {}

    def at(self, id: ScheduleId, instant: datetime) -> Disposition | None:
        """The disposition that covers the instant."""
        page = self.pages.get(id, [])
        place = bisect_right(page, instant, key=first_of)
        if place == 0 or page[place - 1].last < instant:
            return None
        return page[place - 1]

    def between(self, id: ScheduleId, first: datetime, last: datetime) -> Sequence[Disposition]:
        """The dispositions that overlap the time from `first` to `last`, in order."""
        return tuple(
            row for row in self.pages.get(id, []) if row.first <= last and row.last >= first
        )

    def latest(self, id: ScheduleId, before: datetime, limit: int) -> Sequence[Disposition]:
        """The last dispositions that end before this instant, latest first."""
        page = self.pages.get(id, [])
        ended = (row for row in reversed(page[: self.place_of(page, before)]) if row.last < before)
        return tuple(islice(ended, limit))

    def place_of(self, page: Sequence[Disposition], instant: datetime) -> int:
        """How many of them begin up to the instant."""
        return bisect_right(page, instant, key=first_of)

    def beyond(
        self, after: tuple[ScheduleId, datetime] | None
    ) -> Iterator[tuple[ScheduleId, Disposition]]:
        """The dispositions of all schedules after a position, by schedule and first instant."""
        for id in sorted(self.pages):
            page = self.pages[id]
            if after is None or id > after[0]:
                yield from ((id, row) for row in page)
            elif id == after[0]:
                start = bisect_right(page, after[1], key=first_of)
                yield from ((id, row) for row in page[start:])

    def add(self, id: ScheduleId, row: Disposition) -> bool:
        """Add a disposition. False, with no change, if its first instant has one already."""
        if self.at(id, row.first) is not None:
            return False
        insort(self.pages.setdefault(id, []), row, key=first_of)
        return True

    def add_skip(self, id: ScheduleId, skip: Skip) -> None:
        """Add the parts of a skip that have no disposition yet."""
        first = skip.first
        for row in self.between(id, skip.first, skip.last):
            if row.first > first:
                self.add(id, skip_of(replace(skip, first=first, last=row.first - TICK)))
            first = max(first, row.last + TICK)
        if first <= skip.last:
            self.add(id, skip_of(replace(skip, first=first)))

    def add_all(self, id: ScheduleId, rows: Iterable[Disposition]) -> None:
        for row in rows:
            self.add(id, row)

    def remove(self, id: ScheduleId, row: Disposition) -> None:
        page = self.pages[id]
        del page[bisect_right(page, row.first, key=first_of) - 1]
        if not page:
            del self.pages[id]

    def to_skip(self, id: ScheduleId, instant: datetime, reason: str) -> None:
        """Turn the disposition at this instant from a job into a skip."""
        row = self.at(id, instant)
        if row is not None and row.job_id is not None:
            self.remove(id, row)
            self.add(id, skip_of(Skip(instant, instant, reason)))

    def to_job(self, id: ScheduleId, instant: datetime, job_id: JobId) -> bool:
        """Give a job to an instant without one; splits a run of skips around it."""
        row = self.at(id, instant)
        if row is not None and row.job_id is not None:
            return False
        if row is not None:
            self.remove(id, row)
            self.add_all(id, around(row, instant))
        return self.add(id, job_of(instant, job_id))

    def replace_skips(self, id: ScheduleId, skips: Iterable[Skip]) -> None:
        """Store these skips in place of those that they overlap."""
        for skip in skips:
            for row in self.between(id, skip.first, skip.last):
                if row.job_id is None:
                    self.remove(id, row)
            self.add_skip(id, skip)

    def cut_after(self, id: ScheduleId, now: datetime, kept: set[JobId]) -> None:
        """Delete dispositions later than `now`, except those of the jobs in `kept`."""
        for row in self.between(id, now + TICK, datetime.max.replace(tzinfo=now.tzinfo)):
            if row.job_id is not None and row.job_id in kept:
                continue
            self.remove(id, row)
            if row.first <= now:
                self.add(id, replace(row, last=now))

    def keep_started(self, id: ScheduleId, has_started: Callable[[JobId], bool]) -> None:
        """Delete all dispositions except those of started jobs."""
        for row in tuple(self.pages.get(id, ())):
            if row.job_id is None or not has_started(row.job_id):
                self.remove(id, row)

    def prune(self, before: datetime, is_live: Callable[[JobId], bool]) -> None:
        """Delete dispositions wholly before this instant, except those of live jobs."""
        for id, page in tuple(self.pages.items()):
            kept = [
                row
                for row in page
                if row.last >= before or (row.job_id is not None and is_live(row.job_id))
            ]
            if kept:
                self.pages[id] = kept
            else:
                del self.pages[id]


def first_of(row: Disposition) -> datetime:
    return row.first


def around(row: Disposition, instant: datetime) -> Iterable[Disposition]:
    """The parts of a run of skips that remain without one instant."""
    if row.first < instant:
        yield replace(row, last=instant - TICK)
    if row.last > instant:
        yield replace(row, first=instant + TICK)
