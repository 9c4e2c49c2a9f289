"""Wire records of queues."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from onbeat.model.limits import GROUPS_SHOWN_MAX, PAUSE_NOTE_CHARS_MAX
from onbeat.model.queue import GroupDepths, Pause, Queue
from onbeat.wire.answer import AnswerRecord
from onbeat.wire.limits import LimitsAnswer, limits_answer
from onbeat.wire.values import value_or_unset


class PauseBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why the queue is paused, for those who find it so."""

    note: Annotated[str, Meta(max_length=PAUSE_NOTE_CHARS_MAX)] | UnsetType | None = UNSET


class PauseAnswer(AnswerRecord, frozen=True, kw_only=True):
    """Who paused the queue, since when, and why; `note` is omitted where nobody said."""

    by: str
    at: datetime
    note: str | UnsetType = UNSET


class QueueAnswer(AnswerRecord, frozen=True, kw_only=True):
    """`pause` is omitted where the queue is not paused, or nobody knows who did it."""

    name: str
    paused: bool
    pause: PauseAnswer | UnsetType = UNSET
    waiting: int
    due: int
    running: int
    oldest_due_at: datetime | None
    limits: LimitsAnswer


class QueueState(AnswerRecord, frozen=True, kw_only=True):
    name: str
    paused: bool
    pause: PauseAnswer | UnsetType = UNSET


class GroupAnswer(AnswerRecord, frozen=True, kw_only=True):
    """A group of a queue; without `group` the jobs that have none.

    `waiting` leaves out jobs that wait for the end of others. `share` is the part of
    the running jobs of the queue that are of the group, from 0 to 1. `starts_since` counts the
    starts of the queue since the last one of the group, where groups take turns.
    """

    group: str | UnsetType = UNSET
    waiting: int
    running: int
    share: float
    starts_since: int | UnsetType = UNSET


class QueueDetail(QueueAnswer, frozen=True, kw_only=True):
    """A queue and the groups with most waiting jobs, at most 20.

    `groups_waiting` is how many groups have waiting jobs. With `groups_more` there are more waiting
    or running jobs than were looked at, which are at most 5,000 of each, those first that go first.
    """

    groups: tuple[GroupAnswer, ...]
    groups_waiting: int
    groups_more: bool


class QueuesAnswer(msgspec.Struct, frozen=True):
    """By name; `total` counts the queues of all pages.

    `counted_at` is when waiting jobs were counted, where there are too many to be counted for each
    answer; else it is null.
    """

    queues: tuple[QueueAnswer, ...]
    page: int
    limit: int
    total: int
    counted_at: datetime | None = None


def queue_answer(queue: Queue) -> QueueAnswer:
    return QueueAnswer(
        name=queue.name,
        paused=queue.paused,
        pause=pause_answer(queue.pause),
        waiting=queue.waiting,
        due=queue.due,
        running=queue.running,
        oldest_due_at=queue.oldest_due_at,
        limits=limits_answer(queue.limits),
    )


def pause_answer(pause: Pause | None) -> PauseAnswer | UnsetType:
    if pause is None:
        return UNSET
    return PauseAnswer(by=pause.by, at=pause.at, note=pause.note or UNSET)


def queue_detail(queue: Queue, found: GroupDepths) -> QueueDetail:
    """The groups are left out where no job has one."""
    running = sum(one.running for one in found.groups)
    groups = found.groups if any(one.group for one in found.groups) else ()
    return QueueDetail(
        **msgspec.structs.asdict(queue_answer(queue)),
        groups=tuple(
            GroupAnswer(
                group=one.group or UNSET,
                waiting=one.waiting,
                running=one.running,
                share=round(one.running / running, 3) if running else 0.0,
                starts_since=value_or_unset(one.starts_since),
            )
            for one in groups[:GROUPS_SHOWN_MAX]
        ),
        groups_waiting=sum(one.waiting > 0 for one in groups),
        groups_more=found.more and bool(groups),
    )
