"""The verb of looking ahead."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta

from onbeat.model.errors import Invalid
from onbeat.model.limits import FORECAST_SPAN_MAX, PAGE_LIMIT_MAX
from onbeat.model.page import ScheduleFilter
from onbeat.model.schedule import ScheduleStatus
from onbeat.operations.operator import Operator
from onbeat.rules.forecasting import HOUR, forecast
from onbeat.wire.forecasts import AskForecast, ForecastAnswer, HourAnswer
from onbeat.wire.values import read_instant

DAY = timedelta(days=1)


async def show_forecast(operator: Operator, request: AskForecast) -> ForecastAnswer:
    """How many fires every hour of the span will see, over all active schedules."""
    first, last = span_of(operator, request)
    hours: Counter[datetime] = Counter()
    cut: list[str] = []
    seen = 0
    while True:
        page = await operator.store.schedules(
            ScheduleFilter(status=ScheduleStatus.ACTIVE, limit=PAGE_LIMIT_MAX, offset=seen)
        )
        # Counting is work for the processor: the loop has better to do meanwhile.
        found = await asyncio.to_thread(forecast, page.items, first, last, operator.read)
        hours += found.hours
        cut += found.cut
        seen += len(page.items)
        if len(page.items) < PAGE_LIMIT_MAX:
            break
    return ForecastAnswer(
        hours=tuple(HourAnswer(at, hours[at]) for at in hours_of(first, last)),
        fires=hours.total(),
        schedules=seen,
        cut=tuple(cut),
    )


def span_of(operator: Operator, request: AskForecast) -> tuple[datetime, datetime]:
    first = read_instant(request.first, "from") if request.first else operator.clock.now()
    last = read_instant(request.last, "to") if request.last else first + DAY
    if not first < last <= first + FORECAST_SPAN_MAX:
        raise Invalid(f"to must be later than from, by at most {FORECAST_SPAN_MAX.days} days", "to")
    return first, last


def hours_of(first: datetime, last: datetime) -> Iterator[datetime]:
    at = first.replace(minute=0, second=0, microsecond=0)
    while at < last:
        yield at
        at += HOUR
