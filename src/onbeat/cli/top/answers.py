"""What the picture is made of: the answers of a store or of a service."""

from datetime import datetime, timedelta
from typing import Final

import msgspec

from onbeat.app.backend import Backend
from onbeat.model.errors import Forbidden
from onbeat.model.limits import PAGE_LIMIT_MAX
from onbeat.model.schedule import ScheduleStatus
from onbeat.operations.tables.alerts import ALERT_LIST
from onbeat.operations.tables.failures import FAILURE_LIST, FAILURE_REPLAY
from onbeat.operations.tables.fleet import QUEUE_LIST, WORKER_LIST
from onbeat.operations.tables.pulses import PULSE_SHOW
from onbeat.operations.tables.schedules import SCHEDULE_FORECAST, SCHEDULE_LIST
from onbeat.wire.alerts import AlertsAnswer, ListAlerts
from onbeat.wire.failures import FailuresAnswer, ListFailures, ReplayBody, ReplayFailures
from onbeat.wire.forecasts import AskForecast
from onbeat.wire.pulses import AskPulses, PulsesAnswer
from onbeat.wire.queues import QueuesAnswer
from onbeat.wire.requests import ListQueues, ListSchedules, ListWorkers, SchedulesAnswer
from onbeat.wire.workers import WorkersAnswer

FAILURES_MAX: Final = 50
JOBS_OF_WORKER: Final = 10
SCHEDULES_SEARCHED: Final = 100
SOON: Final = timedelta(minutes=10)
SLOW_EVERY: Final = timedelta(seconds=10)
NO_FAULT: Final = "0"


class SlowAnswers(msgspec.Struct, frozen=True, kw_only=True):
    """What changes each ten seconds at most. `fires` is None with too many schedules to look at."""

    hour: PulsesAnswer
    schedules: SchedulesAnswer
    fires: int | None


class Answers(msgspec.Struct, frozen=True, kw_only=True):
    """All that one picture shows, as of `at`."""

    at: datetime
    slow: SlowAnswers
    queues: QueuesAnswer
    workers: WorkersAnswer
    failures: FailuresAnswer
    alerts: AlertsAnswer


class Asker:
    """Asks one backend. What changes slowly is kept for `SLOW_EVERY`."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.slow: SlowAnswers | None = None
        self.slow_at: datetime | None = None
        self.ahead = timedelta()

    async def ask(self) -> Answers:
        """Raises an `OnbeatError`."""
        ask, now = self.backend.call, await self.backend.now()
        if self.slow is None or self.slow_at is None or now - self.slow_at >= SLOW_EVERY:
            self.slow, self.slow_at = await self.ask_slow(now), now
        return Answers(
            at=now + self.ahead,
            slow=self.slow,
            queues=await ask(QUEUE_LIST, ListQueues(limit=PAGE_LIMIT_MAX)),
            workers=await ask(WORKER_LIST, ListWorkers(jobs=JOBS_OF_WORKER)),
            failures=await ask(FAILURE_LIST, ListFailures(limit=FAILURES_MAX)),
            alerts=await ask(ALERT_LIST, ListAlerts()),
        )

    async def ask_slow(self, now: datetime) -> SlowAnswers:
        ask = self.backend.call
        hour = await ask(PULSE_SHOW, AskPulses(span="hour"))
        if hour.sample is not None:
            # A service tells no time, and ages are to be right where the clocks of the two differ.
            there = hour.sample.at + timedelta(seconds=hour.sample.age)
            self.ahead = there - await self.backend.now()
        wanted = ListSchedules(status=ScheduleStatus.ACTIVE, limit=SCHEDULES_SEARCHED)
        schedules = await ask(SCHEDULE_LIST, wanted)
        fires = None
        if schedules.total <= SCHEDULES_SEARCHED:
            span = AskForecast(first=now, last=now + SOON)
            fires = (await ask(SCHEDULE_FORECAST, span)).fires
        return SlowAnswers(hour=hour, schedules=schedules, fires=fires)


async def may_operate(backend: Backend) -> bool:
    """Whether the key may change something. No answer tells a key's scopes, so it tries.

    The try is a dry run, and of a fault that no failure has: it changes nothing.
    """
    nothing = ReplayFailures(NO_FAULT, ReplayBody(dry_run=True, limit=1))
    try:
        await backend.call(FAILURE_REPLAY, nothing)
    except Forbidden:
        return False
    return True
