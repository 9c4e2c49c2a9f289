"""What timelines remember of the past of schedules, as far as nothing changes it any more.

A lane is known up to an instant before which every run has ended and every occurrence was decided.
What changes the past all the same drops the lanes of its schedule: an edit, which the schedule's
own `updated_at` tells, and a retry or a backfill, of which this process hears. News from other
processes may be lost, so no lane is believed for longer than `BELIEVED`.
"""

from collections import OrderedDict
from collections.abc import Iterable
from datetime import timedelta
from threading import Lock

from onbeat.model.ids import ScheduleId
from onbeat.model.limits import OLD_BUCKETS_MAX
from onbeat.model.schedule import Schedule
from onbeat.rules.day_axis import DayAxis
from onbeat.rules.old_lanes import BELIEVED, Key, OldLane, key_of, weight_of


class OldLanes:
    """At most `OLD_BUCKETS_MAX` buckets; those that were looked at longest ago go first.

    Any thread may use it.
    """

    def __init__(self, buckets_max: int = OLD_BUCKETS_MAX) -> None:
        self.buckets_max = buckets_max
        self.buckets = 0
        self.changes = 0
        self.lock = Lock()
        self.lanes: OrderedDict[tuple[ScheduleId, Key], OldLane] = OrderedDict()
        self.keys: dict[ScheduleId, set[Key]] = {}

    def known(self, axis: DayAxis, schedule: Schedule) -> OldLane | None:
        place = schedule.id, key_of(axis)
        with self.lock:
            lane = self.lanes.get(place)
            if lane is None:
                return None
            is_new = timedelta() <= axis.now - lane.read_at < BELIEVED
            if not is_new or lane.updated_at != schedule.updated_at:
                self.drop(place)
                return None
            self.lanes.move_to_end(place)
            return lane

    def keep(self, axis: DayAxis, id: ScheduleId, lane: OldLane, changes: int) -> None:
        """Unless something was forgotten since there were so many `changes`."""
        place = id, key_of(axis)
        with self.lock:
            if changes != self.changes:
                return
            self.drop(place)
            self.lanes[place] = lane
            self.keys.setdefault(id, set()).add(place[1])
            self.buckets += weight_of(axis.first, axis.width, lane)
            while self.buckets > self.buckets_max:
                self.drop(next(iter(self.lanes)))

    def forget(self, ids: Iterable[str]) -> None:
        """Something happened to the past of these schedules."""
        with self.lock:
            self.changes += 1
            for text in ids:
                id = ScheduleId(text)
                for key in tuple(self.keys.get(id, ())):
                    self.drop((id, key))

    def forget_all(self) -> None:
        """Something happened to the past of some schedules."""
        with self.lock:
            self.changes += 1
            self.lanes.clear()
            self.keys.clear()
            self.buckets = 0

    def drop(self, place: tuple[ScheduleId, Key]) -> None:
        id, (first, width) = place
        lane = self.lanes.pop(place, None)
        if lane is None:
            return
        self.buckets -= weight_of(first, width, lane)
        self.keys[id].discard((first, width))
        if not self.keys[id]:
            del self.keys[id]

    def changed(self, ids: Iterable[str] | None) -> None:
        """The same, of these schedules or, with None, of any."""
        if ids is None:
            self.forget_all()
        else:
            self.forget(ids)
