"""Wire records of statistics."""

from datetime import datetime
from heapq import nlargest
from operator import itemgetter

from onbeat.model.limits import UNKNOWN_TASKS_MAX
from onbeat.model.transition import Stats
from onbeat.wire.answer import AnswerRecord


class StatsAnswer(AnswerRecord, frozen=True, kw_only=True):
    """Counts by state.

    `unknown_tasks` counts waiting jobs whose task no live worker knows, for the tasks with most
    such jobs; `unknown_tasks_more` is the number of other such tasks. `ended_at` is when ended jobs
    were counted, where there are too many to be counted for each answer; else it is null.
    `counted_at` is the same for waiting jobs.
    """

    jobs: dict[str, int]
    schedules: dict[str, int]
    workers: int
    oldest_due_seconds: float
    unknown_tasks: dict[str, int]
    unknown_tasks_more: int
    ended_at: datetime | None
    counted_at: datetime | None


def stats_answer(
    stats: Stats, ended_at: datetime | None = None, counted_at: datetime | None = None
) -> StatsAnswer:
    unknown = stats.unknown_tasks
    return StatsAnswer(
        jobs=stats.jobs,
        schedules=stats.schedules,
        workers=stats.workers,
        oldest_due_seconds=stats.oldest_due_seconds,
        unknown_tasks=dict(nlargest(UNKNOWN_TASKS_MAX, unknown.items(), key=itemgetter(1))),
        unknown_tasks_more=max(0, len(unknown) - UNKNOWN_TASKS_MAX),
        ended_at=ended_at,
        counted_at=counted_at,
    )
