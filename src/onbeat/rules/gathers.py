"""When a job that gathers events is due, and which events may still join it."""

from datetime import datetime

import msgspec

from onbeat.model.errors import TooCostly
from onbeat.model.limits import RECURRENCE_STEPS_MAX
from onbeat.model.reaction import Gather, Keep
from onbeat.model.recurrence import RecurrenceSpec
from onbeat.model.schedule import Schedule
from onbeat.recurrence import Budget
from onbeat.rules.calendar import shifted
from onbeat.rules.event_patterns import NoValue
from onbeat.rules.plans import Compile
from onbeat.rules.windows import opening_at_or_after


class Opening(msgspec.Struct, frozen=True):
    """When a new job is due, and the latest instant to which further events may postpone it.

    Its windows may put it off further.
    """

    due_at: datetime
    latest: datetime


def is_throttle(gather: Gather | None) -> bool:
    """Whether the first event makes its job at once, and the others of the time are counted."""
    return gather is not None and gather.keep is Keep.FIRST and gather.quiet is None


def opening(schedule: Schedule, at: datetime, compile: Compile) -> Opening:
    """The job of an event that arrived at `at`. Raises `NoValue` where `until` has no instant."""
    gather = schedule.gather
    if gather is None or is_throttle(gather):
        return Opening(*[shifted(at, schedule.delay)] * 2)
    latest = shifted(gathering_end(gather, at, compile), schedule.delay)
    if gather.quiet is None:
        return Opening(latest, latest)
    return Opening(min(latest, shifted(at, gather.quiet + schedule.delay)), latest)


def postponed_to(
    schedule: Schedule, opened_at: datetime, at: datetime, compile: Compile
) -> datetime:
    """When a job that is put off by each event is due after one at `at`, at the earliest.

    Raises `NoValue`.
    """
    assert schedule.gather is not None
    assert schedule.gather.quiet is not None
    latest = shifted(gathering_end(schedule.gather, opened_at, compile), schedule.delay)
    due_at = min(latest, shifted(at, schedule.gather.quiet + schedule.delay))
    return opening_at_or_after(schedule.window, due_at)


def joined_until(
    schedule: Schedule, opened_at: datetime, due_at: datetime, compile: Compile
) -> datetime:
    """Until when further events may join the job that gathers since `opened_at`. Raises `NoValue`.

    A window puts off the start of the job, and not this: the job may expire before the window
    opens, so an event that joined it meanwhile would have less time than with a job of its own.
    """
    assert schedule.gather is not None
    until = shifted(due_at, -schedule.delay)
    if not schedule.window:
        return until
    return min(until, gathering_end(schedule.gather, opened_at, compile))


def gathering_end(gather: Gather, opened_at: datetime, compile: Compile) -> datetime:
    """When events that are gathered since `opened_at` have had their time."""
    if gather.until is not None:
        return next_instant(gather.until, opened_at, compile)
    assert gather.span is not None, "checked when the schedule was saved"
    return shifted(opened_at, gather.span)


def next_instant(until: RecurrenceSpec, at: datetime, compile: Compile) -> datetime:
    try:
        instant = compile(until, Budget(RECURRENCE_STEPS_MAX)).after(at)
    except TooCostly:
        raise NoValue("gather.until takes too long to compute") from None
    except Exception as error:  # noqa: BLE001  one rule must not keep others from their events
        raise NoValue(f"gather.until cannot be computed: {error}") from None
    if instant is None:
        raise NoValue("gather.until has no further instant")
    return instant
