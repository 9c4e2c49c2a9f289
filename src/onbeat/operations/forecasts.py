"""The operation of forecasts."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from onbeat.model.errors import Invalid
from onbeat.model.limits import FORECAST_SPAN_MAX, FORECAST_STEPS_MAX, PAGE_LIMIT_MAX
from onbeat.model.page import ScheduleFilter
from onbeat.model.schedule import Schedule, ScheduleStatus
from onbeat.operations.context import OperationContext
from onbeat.ports.computation import compute_aside
from onbeat.recurrence import Budget
from onbeat.rules.calendar import LAST, shifted
from onbeat.rules.forecast import HOUR, Forecast, forecast
from onbeat.wire.forecasts import AskForecast, ForecastAnswer, HourAnswer
from onbeat.wire.values import read_instant

DAY = timedelta(days=1)


async def show_forecast(context: OperationContext, request: AskForecast) -> ForecastAnswer:
    """How many times all active schedules fire in each hour of the span."""
    first, last = span_of(context, request)
    hours: Counter[datetime] = Counter()
    cut: list[str] = []
    reached: list[datetime] = []
    seen = 0
    budget = Budget(FORECAST_STEPS_MAX)
    while True:
        page = await context.store.schedules(
            ScheduleFilter(status=ScheduleStatus.ACTIVE, limit=PAGE_LIMIT_MAX, offset=seen)
        )
        result = await count_fires(context, page.items, first, last, budget)
        hours += result.hours
        cut += result.cut
        reached += [] if result.counted_to is None else [result.counted_to]
        seen += len(page.items)
        if len(page.items) < PAGE_LIMIT_MAX:
            break
    return ForecastAnswer(
        hours=tuple(HourAnswer(at, hours[at]) for at in hours_of(first, last)),
        fires=hours.total(),
        schedules=seen,
        cut=tuple(cut),
        counted_to=min(reached, default=None),
    )


async def count_fires(
    context: OperationContext,
    schedules: Sequence[Schedule],
    first: datetime,
    last: datetime,
    budget: Budget,
) -> Forecast:
    """Counting is CPU-bound, so it runs in a thread."""
    return await compute_aside(
        lambda all_of_it: forecast(schedules, first, last, all_of_it, context.compile),
        budget,
        context.gone,
    )


def span_of(context: OperationContext, request: AskForecast) -> tuple[datetime, datetime]:
    first = read_instant(request.first, "from") if request.first else context.clock.now()
    last = read_instant(request.last, "to") if request.last else shifted(first, DAY)
    if not first < last <= shifted(first, FORECAST_SPAN_MAX):
        raise Invalid(f"to must be later than from, by at most {FORECAST_SPAN_MAX.days} days", "to")
    return first, last


def hours_of(first: datetime, last: datetime) -> Iterator[datetime]:
    at = first.replace(minute=0, second=0, microsecond=0)
    while at < last:
        yield at
        if at >= LAST - HOUR:
            return
        at += HOUR
