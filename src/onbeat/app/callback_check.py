"""Warns where a program runs jobs, and callbacks among them wait for want of an HTTP client."""

from collections.abc import Iterable
from typing import Final

from onbeat.model.job import JobState
from onbeat.model.limits import COMING_SCHEDULES_MAX
from onbeat.model.page import JobFilter, ScheduleFilter
from onbeat.model.schedule import ScheduleStatus
from onbeat.model.target import HttpTarget
from onbeat.operations.coming_work import without_worker
from onbeat.operations.context import OperationContext
from onbeat.telemetry.structured_log import Log

CALLBACKS: Final = "@http"
log: Final = Log("onbeat.jobs")


class CallbackCheck:
    """Logs once that callbacks wait, for a program without the extra `http`."""

    def __init__(self) -> None:
        self.is_given = False

    def look(self, targets: Iterable[object]) -> None:
        if not self.is_given and any(isinstance(target, HttpTarget) for target in targets):
            self.is_given = True
            log.warning(
                "callbacks.wait",
                reason="no HTTP client here, and no other worker runs them",
                remedy="pip install 'onbeat[http]'",
            )


async def callback_check(context: OperationContext) -> CallbackCheck | None:
    """A check that has looked at what the store has; None where another worker runs callbacks."""
    if not await without_worker(context, [CALLBACKS]):
        return None
    check = CallbackCheck()
    active = ScheduleFilter(status=ScheduleStatus.ACTIVE, limit=COMING_SCHEDULES_MAX)
    check.look(one.target for one in (await context.store.schedules(active)).items)
    waiting = JobFilter(task=CALLBACKS, state=JobState.WAITING, limit=1)
    check.look(job.target for job in (await context.store.jobs(waiting)).items)
    return check
