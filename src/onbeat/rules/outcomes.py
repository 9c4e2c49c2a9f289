"""What became of the occurrences of a schedule, and what a backfill of them would add."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from onbeat.model.job import Job, JobState
from onbeat.model.limits import ERROR_CHARS_MAX
from onbeat.model.occurrence import OccurrenceOutcome
from onbeat.rules.plans import MISFIRED

LATE_AFTER: Final = timedelta(minutes=1)
REASON_CHARS_MAX: Final = 300
FORGOTTEN: Final = "its job was deleted after its time to be kept"


WORST_FIRST: Final = (
    OccurrenceOutcome.FAILED,
    OccurrenceOutcome.MISFIRED,
    OccurrenceOutcome.SKIPPED,
    OccurrenceOutcome.CANCELLED,
    OccurrenceOutcome.RETRYING,
    OccurrenceOutcome.LATE,
    OccurrenceOutcome.RUNNING,
    OccurrenceOutcome.RAN,
    OccurrenceOutcome.FORGOTTEN,
    OccurrenceOutcome.PLANNED,
)
"""The order in which one outcome stands for several."""


class Judged(NamedTuple):
    outcome: OccurrenceOutcome
    reason: str | None = None


def outcome_without_job(reason: str | None) -> Judged:
    """Of an occurrence that was skipped, or whose job is deleted."""
    if reason is None:
        return Judged(OccurrenceOutcome.FORGOTTEN, FORGOTTEN)
    return Judged(skip_of(reason), reason)


def outcome_of_job(job: Job) -> Judged:
    match job.state:
        case JobState.WAITING if job.started_at is None:
            return Judged(OccurrenceOutcome.PLANNED)
        case JobState.WAITING:
            return Judged(OccurrenceOutcome.RETRYING, last_words(job.error))
        case JobState.RUNNING:
            return Judged(OccurrenceOutcome.RUNNING)
        case JobState.FAILED:
            return Judged(OccurrenceOutcome.FAILED, last_words(job.error or job.reason))
        case JobState.CANCELLED if job.started_at is None:
            return Judged(skip_of(job.reason or ""), last_words(job.reason))
        case JobState.CANCELLED:
            return Judged(OccurrenceOutcome.CANCELLED, last_words(job.reason))
        case _:
            return Judged(OccurrenceOutcome.LATE if is_late(job) else OccurrenceOutcome.RAN)


def is_late(job: Job) -> bool:
    """Whether its only attempt began long after its due time; later attempts wait on purpose."""
    return (
        job.attempt <= 1
        and job.started_at is not None
        and job.started_at - max(job.due_at, job.occurrence or job.due_at) > LATE_AFTER
    )


def skip_of(reason: str) -> OccurrenceOutcome:
    is_misfire = reason.startswith(MISFIRED.partition(":")[0])
    return OccurrenceOutcome.MISFIRED if is_misfire else OccurrenceOutcome.SKIPPED


def last_words(text: str | None) -> str | None:
    """The last line, which tells what happened; the lines before it say where."""
    lines = (text or "")[-ERROR_CHARS_MAX:].strip().splitlines()
    return lines[-1][:REASON_CHARS_MAX] if lines else None


def worst(outcomes: Sequence[OccurrenceOutcome]) -> OccurrenceOutcome:
    """The one that stands for all of a day. There is at least one."""
    return min(outcomes, key=WORST_FIRST.index)


class Span(NamedTuple):
    """Instants with one disposition, both ends included, and whether they have a job."""

    first: datetime
    last: datetime
    has_job: bool


class BackfillCount(NamedTuple):
    """Of a backfill's occurrences: how many have a job already, and how many were skipped."""

    exist: int
    skipped: int


def count_backfill(occurrences: Sequence[datetime], known: Sequence[Span]) -> BackfillCount:
    """Both in order; a job within a run of skips goes before it. Linear in both."""
    jobs = {span.first for span in known if span.has_job}
    skips = [span for span in known if not span.has_job]
    exist = skipped = place = 0
    for at in occurrences:
        while place < len(skips) and skips[place].last < at:
            place += 1
        if at in jobs:
            exist += 1
        elif place < len(skips) and skips[place].first <= at:
            skipped += 1
    return BackfillCount(exist, skipped)
