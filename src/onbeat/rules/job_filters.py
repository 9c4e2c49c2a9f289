"""Which jobs a filter is for: the one predicate behind lists, searches and bulks."""

from datetime import datetime
from string import ascii_lowercase, ascii_uppercase
from typing import Final

from onbeat.model.job import Job
from onbeat.model.page import JobFilter
from onbeat.model.target import lane_of

SMALL: Final = str.maketrans(ascii_uppercase, ascii_lowercase)
REST: Final = "*"
"""At the end of a task's name: any rest."""


def matches(filter: JobFilter, job: Job) -> bool:
    return (
        filter.state in (None, job.state)
        and filter.queue in (None, job.queue)
        and filter.schedule_id in (None, job.schedule_id)
        and filter.flow in (None, job.flow)
        and filter.fault in (None, job.fault)
        and filter.unique in (None, job.unique)
        and (filter.ids is None or job.id in filter.ids)
        and (filter.task is None or is_of_task(job, filter.task))
        and all(has_label(job, label) for label in filter.label)
        and is_within(filter, instant_of(job))
        and (filter.error is None or has_error(job, filter.error))
    )


def is_of_task(job: Job, task: str) -> bool:
    lane = lane_of(job.target)
    return lane == task or (task.endswith(REST) and lane.startswith(task.removesuffix(REST)))


def has_label(job: Job, label: str) -> bool:
    """A key may hold a colon, and so may a value, so the whole text is compared."""
    return any(f"{key}:{value}" == label for key, value in job.labels.items())


def instant_of(job: Job) -> datetime:
    """When the job ended, or else is due."""
    return job.finished_at or job.due_at


def is_within(filter: JobFilter, at: datetime) -> bool:
    is_before = filter.until is None or at < filter.until
    return is_before and (filter.since is None or at >= filter.since)


def has_error(job: Job, text: str) -> bool:
    return fold(text) in fold(job.error or "")


def fold(text: str) -> str:
    """The text with small letters from A to Z: the only ones whose case every store folds."""
    return text.translate(SMALL)
