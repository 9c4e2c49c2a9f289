"""What a start of a program changes about the schedules that it declared before."""

import re
from collections.abc import Collection, Sequence
from datetime import datetime
from itertools import zip_longest
from typing import Final

import msgspec
from msgspec.structs import replace

from onbeat.model.event import OWN_SOURCE, Event
from onbeat.model.owner import Owner
from onbeat.model.schedule import PauseReason, Schedule, ScheduleStatus
from onbeat.model.target import lane_of
from onbeat.rules.job_events import DEPTH

TYPE: Final = "onbeat.schedule.orphaned"

NUMBERS: Final = re.compile(r"([0-9]+)")


class Orphan(msgspec.Struct, frozen=True, kw_only=True):
    """The data of the event."""

    schedule_id: str
    key: str | None
    name: str
    target: str
    owner: str | None
    release: str | None


def declared_status(
    before: Schedule | None, *, paused: bool | None
) -> tuple[ScheduleStatus, PauseReason | None]:
    """The status of a schedule whose program says `paused`, or nothing about it.

    A pause by hand stays. A pause of the program ends when the program says so, and one because it
    was no longer declared ends with its declaration.
    """
    if before is None:
        return status_of(paused=paused is True)
    if is_paused_by_hand(before):
        return before.status, None
    if paused is True:
        return status_of(paused=True)
    if before.status is ScheduleStatus.FINISHED:
        return before.status, None
    if paused is False or before.pause_reason is PauseReason.ORPHANED:
        return status_of(paused=False)
    return before.status, before.pause_reason


def status_of(*, paused: bool) -> tuple[ScheduleStatus, PauseReason | None]:
    if paused:
        return ScheduleStatus.PAUSED, PauseReason.DECLARED
    return ScheduleStatus.ACTIVE, None


def is_paused_by_hand(schedule: Schedule) -> bool:
    return schedule.status is ScheduleStatus.PAUSED and schedule.pause_reason is None


def owner_after(before: Schedule | None, owner: Owner) -> Owner:
    """Who owns a declared schedule. A program without a given name takes it from nobody."""
    if before is None or before.owner is None or owner.is_named:
        return owner
    return owner if before.owner == owner.name else Owner(before.owner, before.release)


def newest_release(owned: Sequence[Schedule]) -> str | None:
    """The newest release of the program that has declared, or left out, one of its schedules."""
    releases = (schedule.release for schedule in owned if schedule.release is not None)
    return max(releases, key=release_order, default=None)


def is_older(release: str | None, than: str | None) -> bool:
    """Whether a release comes before another; one without a name comes before none."""
    if release is None or than is None:
        return False
    return release_order(release) < release_order(than)


def release_order(release: str) -> tuple[tuple[str, int], ...]:
    """Texts in order, and the numbers in them by their size: 1.9 comes before 1.10."""
    texts, numbers = NUMBERS.split(release)[::2], NUMBERS.findall(release)
    pairs = zip_longest(texts, numbers, fillvalue="")
    return tuple((text, int(number or -1)) for text, number in pairs)


def orphaned(owned: Sequence[Schedule], declared: Collection[str]) -> Sequence[Schedule]:
    """The schedules of a program that are active, and that it no longer declares."""
    return [
        schedule
        for schedule in owned
        if schedule.key not in declared and schedule.status is ScheduleStatus.ACTIVE
    ]


def paused_as_orphan(schedule: Schedule, owner: Owner, now: datetime) -> Schedule:
    return replace(
        schedule,
        status=ScheduleStatus.PAUSED,
        pause_reason=PauseReason.ORPHANED,
        release=owner.release,
        version=schedule.version + 1,
        updated_at=now,
    )


def orphan_event(paused: Schedule, now: datetime) -> Event:
    """The event, whose id says which edit paused the schedule."""
    data = Orphan(
        schedule_id=paused.id,
        key=paused.key,
        name=paused.name,
        target=lane_of(paused.target),
        owner=paused.owner,
        release=paused.release,
    )
    return Event(
        id=f"{paused.id}/{paused.version}",
        source=OWN_SOURCE,
        type=TYPE,
        time=now,
        subject=paused.id,
        data=msgspec.Raw(msgspec.json.encode(data)),
        extensions={DEPTH: 1},
    )
