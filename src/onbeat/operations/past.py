"""Drops what timelines remember of the past once an operation has changed it."""

from typing import Final

import msgspec

from onbeat.operations.audit import object_of
from onbeat.operations.context import OperationContext
from onbeat.wire.jobs import JobInfo

OF_A_SCHEDULE: Final = "schedule."
OF_JOBS: Final = frozenset({"job.bulk", "bulk.stop", "flow.retry", "flow.cancel", "failure.replay"})
"""Operations that may concern jobs of any schedule."""


def forget_past(
    context: OperationContext, action: str, request: msgspec.Struct, answer: object
) -> None:
    """A retried job leaves the time at which it was due; a backfill adds jobs to the past."""
    past = context.past
    if isinstance(answer, JobInfo):
        past.forget(() if answer.schedule_id is None else (answer.schedule_id,))
    elif action.startswith(OF_A_SCHEDULE):
        past.forget((object_of(action, request).partition("/")[2],))
    elif action in OF_JOBS:
        past.forget_all()
