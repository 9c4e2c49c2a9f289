"""The verbs of an `Onbeat` on the whole store: counts, workers, settings, and the time axis."""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Literal, TypedDict, Unpack

from onbeat.app.backend import Backend
from onbeat.app.call import check_keywords, instant
from onbeat.model.limits import PAGE_LIMIT_DEFAULT
from onbeat.operations.tables.administration import SETTINGS_SHOW
from onbeat.operations.tables.fleet import STATS_SHOW, WORKER_LIST
from onbeat.operations.tables.schedules import SCHEDULE_FORECAST, TIMELINE_SHOW
from onbeat.wire.forecasts import AskForecast, ForecastAnswer
from onbeat.wire.requests import ListWorkers, NoParams
from onbeat.wire.settings import SettingAnswer
from onbeat.wire.stats import StatsAnswer
from onbeat.wire.timeline import TimelineAnswer
from onbeat.wire.workers import WorkersAnswer


class TimelineOptions(TypedDict, total=False):
    """Which part of time, and which schedules. None stands for an option not given."""

    day: date | datetime | str | None
    span: Literal["6h", "day", "week"] | None
    tz: str | None
    q: str | None
    status: Literal["active", "paused", "finished"] | None
    queue: str | None
    schedule_id: str | None
    order: Literal["trouble", "next", "name"] | None
    page: int | None


class Overview:
    """The verbs of an `Onbeat` that are about no single kind of record."""

    backend: Backend

    def stats(self) -> StatsAnswer:
        """Counts of jobs and schedules by state, and of live workers."""
        return self.backend.wait_for(self.astats())

    async def astats(self) -> StatsAnswer:
        return await self.backend.call(STATS_SHOW, NoParams())

    def workers(self, *, jobs: int = PAGE_LIMIT_DEFAULT) -> WorkersAnswer:
        """Workers and remote workers, each with up to `jobs` of its running jobs."""
        return self.backend.wait_for(self.aworkers(jobs=jobs))

    async def aworkers(self, *, jobs: int = PAGE_LIMIT_DEFAULT) -> WorkersAnswer:
        return await self.backend.call(WORKER_LIST, ListWorkers(jobs=jobs))

    def forecast(
        self, since: datetime | None = None, until: datetime | None = None
    ) -> ForecastAnswer:
        """How often all active schedules will fire, by hour, until just before `until`.

        By default in the day from now on. Raises `Invalid` for a span that is too long.
        """
        return self.backend.wait_for(self.aforecast(since, until))

    async def aforecast(
        self, since: datetime | None = None, until: datetime | None = None
    ) -> ForecastAnswer:
        span = AskForecast(first=instant("since", since), last=instant("until", until))
        return await self.backend.call(SCHEDULE_FORECAST, span)

    def timeline(self, **given: Unpack[TimelineOptions]) -> TimelineAnswer:
        """What schedules did and will do on one axis of time: a page of lanes.

        `day` is a date, or the instant at which six hours begin; by default today in `tz`. Raises
        `Invalid` naming the argument.
        """
        return self.backend.wait_for(self.atimeline(**given))

    async def atimeline(self, **given: Unpack[TimelineOptions]) -> TimelineAnswer:
        check_keywords("timeline", given, TimelineOptions.__annotations__)
        named = {name: text_of(value) for name, value in given.items() if value is not None}
        return await self.backend.ask(TIMELINE_SHOW, named)

    def settings(self) -> Sequence[SettingAnswer]:
        """The settings of the process that answers, and where each was set; none of a library."""
        return self.backend.wait_for(self.asettings())

    async def asettings(self) -> Sequence[SettingAnswer]:
        return (await self.backend.call(SETTINGS_SHOW, NoParams())).settings


def text_of(value: object) -> str:
    return value.isoformat() if isinstance(value, date) else str(value)
