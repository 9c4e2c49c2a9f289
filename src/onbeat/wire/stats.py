"""Wire records of statistics."""

from heapq import nlargest
from operator import itemgetter

import msgspec

from onbeat.model.event import Stats
from onbeat.model.limits import UNKNOWN_TASKS_MAX


class StatsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Counts by state.

    `unknown_tasks` counts waiting jobs whose task no live worker knows, for the tasks with most
    such jobs; `unknown_tasks_more` is the number of other such tasks.
    """

    jobs: dict[str, int]
    schedules: dict[str, int]
    workers: int
    oldest_due_seconds: float
    unknown_tasks: dict[str, int]
    unknown_tasks_more: int


def stats_answer(stats: Stats) -> StatsAnswer:
    unknown = stats.unknown_tasks
    return StatsAnswer(
        jobs=stats.jobs,
        schedules=stats.schedules,
        workers=stats.workers,
        oldest_due_seconds=stats.oldest_due_seconds,
        unknown_tasks=dict(nlargest(UNKNOWN_TASKS_MAX, unknown.items(), key=itemgetter(1))),
        unknown_tasks_more=max(0, len(unknown) - UNKNOWN_TASKS_MAX),
    )
