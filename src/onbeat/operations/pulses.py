"""The operation of the history of rates and depths."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Final

import msgspec

from onbeat.model.attempt import OutcomeName
from onbeat.model.limits import PULSES_READ_MAX
from onbeat.model.pulse import DURATION_BOUNDS, Depth, Gauges, Pulse
from onbeat.operations.context import OperationContext
from onbeat.operations.history_parts import HistoryPart, parts
from onbeat.operations.recent_history import recent
from onbeat.ports.store import Store
from onbeat.rules.history import (
    SPANS,
    HistoryPoint,
    PlotSpan,
    depth_of,
    measured_until,
    points_of,
    sample_of,
    settled,
    starts_by_queue,
    unknown_from,
)
from onbeat.rules.history_parts import part_of, starts_of
from onbeat.rules.pulses import FINEST, RETENTIONS, Retention
from onbeat.rules.quantiles import ValueRange, buckets_of, lateness_buckets, quantile
from onbeat.wire.pulses import (
    AskPulses,
    PointAnswer,
    PulsesAnswer,
    QueueStartsAnswer,
    sample_answer,
)
from onbeat.wire.requests import NoParams
from onbeat.wire.values import read_name, read_queue_name

FAILED: Final = (OutcomeName.FAILED, OutcomeName.LOST)
READS_MAX: Final = 3


class Plotted(msgspec.Struct, frozen=True):
    """The points of an answer, of which the next one needs those that are settled."""

    points: Sequence[HistoryPoint]
    answers: tuple[PointAnswer, ...]


async def show_pulses(context: OperationContext, request: AskPulses) -> PulsesAnswer:
    """Rates, quantiles and depths in steps, and the newest sample."""
    queue = None if request.queue is None else read_queue_name(request.queue, "queue")
    task = None if request.task is None else read_name(request.task, "task")
    span = SPANS[request.span]

    async def read(now: datetime, before: Plotted | None) -> Plotted:
        known = () if before is None else settled(before.points, now)
        part = None
        if queue is not None or task is not None:
            part = HistoryPart((queue, task), partial(part_of, queue=queue, task=task))
        first = unknown_from(span, now, known)
        pulses, samples = await history_of(
            context.store, span, first, now, part, queues=queue is not None
        )
        samples = [sample_of(sample, queue) for sample in samples]
        points = points_of(span, now, pulses, samples, known)
        has_depths = task is None
        answers = (point_answer(point, queue, has_depths=has_depths) for point in points)
        return Plotted(points, tuple(answers))

    plotted = await recent(context, (request.span, queue, task), read)
    newest = await context.store.newest_sample(FINEST)
    sample = None if newest is None else sample_answer(newest, context.clock.now())
    return PulsesAnswer(span=request.span, points=plotted.answers, sample=sample)


async def show_queue_starts(context: OperationContext, _request: NoParams) -> QueueStartsAnswer:
    """How often each queue started jobs in the last hour."""

    async def read(now: datetime, _before: object) -> QueueStartsAnswer:
        part, span = HistoryPart("queues", starts_of), SPANS["hour"]
        first = unknown_from(span, now, ())
        pulses, samples = await history_of(context.store, span, first, now, part, queues=False)
        queues = starts_by_queue(now, pulses, samples)
        return QueueStartsAnswer(until=measured_until(now), queues=queues)

    return await recent(context, "queues", read)


async def history_of(
    store: Store,
    span: PlotSpan,
    first: datetime,
    last: datetime,
    part: HistoryPart | None,
    *,
    queues: bool,
) -> tuple[Sequence[Pulse], Sequence[Gauges]]:
    """The rows that are finer than the steps of the span: what is new has not been folded yet.

    Of a part there is one for each instant, else one of each process, without its series. Samples
    have their queues only where `queues` says so. Where rows are folded meanwhile, which would
    count them twice or not at all, all are read once more.
    """
    reads = 0
    while True:
        oldest = await oldest_rows(store, span)
        rows = await rows_of(store, span, first, last, part, queues=queues)
        reads += 1
        if reads == READS_MAX or oldest == await oldest_rows(store, span):
            return rows


async def oldest_rows(store: Store, span: PlotSpan) -> Sequence[datetime | None]:
    return [await store.oldest_history(one.resolution) for one in finer_than(span)]


def finer_than(span: PlotSpan) -> Sequence[Retention]:
    return [one for one in RETENTIONS if one.resolution <= span.step]


async def rows_of(
    store: Store,
    span: PlotSpan,
    first: datetime,
    last: datetime,
    part: HistoryPart | None,
    *,
    queues: bool,
) -> tuple[Sequence[Pulse], Sequence[Gauges]]:
    pulses: list[Pulse] = []
    samples: list[Gauges] = []
    for retention in finer_than(span):
        resolution = retention.resolution
        pulses += await pulses_of(store, part, retention, first, last)
        samples += await store.samples(resolution, first, last, PULSES_READ_MAX, queues=queues)
    return pulses, samples


async def pulses_of(
    store: Store, part: HistoryPart | None, retention: Retention, first: datetime, last: datetime
) -> Sequence[Pulse]:
    if part is not None:
        return await parts(store, part, retention, first, last)
    return await store.pulses(retention.resolution, first, last, PULSES_READ_MAX, series=False)


def point_answer(point: HistoryPoint, queue: str | None, *, has_depths: bool) -> PointAnswer:
    totals = point.totals
    answer = PointAnswer(at=point.at, seconds=point.seconds)
    if totals is not None:
        answer = msgspec.structs.replace(
            answer,
            started=totals.starts,
            succeeded=totals.ended(OutcomeName.SUCCEEDED),
            failed=sum(map(totals.ended, FAILED)),
            **quantiles("lateness", list(lateness_buckets(totals)), totals.latest),
            **quantiles("duration", list(buckets_of(DURATION_BOUNDS, totals.duration))),
        )
    sample = point.gauges
    depth = depth_of(sample, queue) if has_depths and sample is not None else None
    if sample is None or depth is None:
        return answer
    return msgspec.structs.replace(
        answer,
        due=depth.due,
        waiting=depth.waiting,
        running=depth.running,
        oldest_due_seconds=seconds_due(depth, sample.at),
    )


def quantiles(
    name: str, buckets: Sequence[ValueRange], most: float | None = None
) -> Mapping[str, float | None]:
    return {
        f"{name}_p50": rounded(quantile(buckets, 0.5, most)),
        f"{name}_p95": rounded(quantile(buckets, 0.95, most)),
    }


def rounded(value: float | None) -> float | None:
    """To microseconds: the buckets tell no more."""
    return None if value is None else round(value, 6)


def seconds_due(depth: Depth, at: datetime) -> float:
    """For how long the oldest due job had been due; 0 without one."""
    return 0.0 if depth.oldest_due_at is None else (at - depth.oldest_due_at).total_seconds()
