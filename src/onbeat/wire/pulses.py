"""The request and the answers of the history of rates and depths."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from onbeat.model.limits import NAME_CHARS_MAX
from onbeat.model.pulse import Depth, Gauges
from onbeat.wire.answer import AnswerRecord


class AskPulses(msgspec.Struct, frozen=True, kw_only=True):
    """How far to look back, and the queue or the task to look at."""

    span: Annotated[Literal["hour", "day", "week"], Meta(description="How far to look back")] = (
        "hour"
    )
    queue: Annotated[str, Meta(max_length=NAME_CHARS_MAX)] | None = None
    task: Annotated[str, Meta(max_length=NAME_CHARS_MAX)] | None = None


class PointAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What happened in the `seconds` from `at` on; null where nothing was measured.

    `started`, `succeeded` and `failed` count attempts. Quantiles are in seconds, interpolated in
    the buckets of the metrics. Depths are a sample.
    """

    at: datetime
    seconds: float
    started: int | None = None
    succeeded: int | None = None
    failed: int | None = None
    lateness_p50: float | None = None
    lateness_p95: float | None = None
    duration_p50: float | None = None
    duration_p95: float | None = None
    due: int | None = None
    waiting: int | None = None
    running: int | None = None
    oldest_due_seconds: float | None = None


class DepthAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs of one queue; those that are due or blocked are among the waiting."""

    waiting: int
    due: int
    running: int
    blocked: int
    oldest_due_at: datetime | None


class SampleAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The newest sample; `age` is in seconds.

    `queues` are the deepest, `queues_more` is the number of others. `dead_letters` stops at 10,001.
    `ended` counts ended jobs by state, `ended_at` is when; null until the first count.
    """

    at: datetime
    age: float
    total: DepthAnswer
    queues: dict[str, DepthAnswer]
    queues_more: int
    unknown_tasks: dict[str, int]
    dead_letters: int
    workers: int
    slots: int
    ended: dict[str, int] | None
    ended_at: datetime | None


class PulsesAnswer(AnswerRecord, frozen=True, kw_only=True):
    """All points of the span, the oldest first, and the newest sample of depths."""

    span: str
    points: tuple[PointAnswer, ...]
    sample: SampleAnswer | None


class QueueStartsAnswer(AnswerRecord, frozen=True, kw_only=True):
    """By queue, how many attempts began in each of the 60 minutes until `until`, the newest last.

    Null where nothing was measured. Queues of which nothing began are left out; those that were
    not counted apart are together as `other`.
    """

    until: datetime
    queues: dict[str, tuple[int | None, ...]]


def sample_answer(sample: Gauges, now: datetime) -> SampleAnswer:
    ended = sample.ended
    return SampleAnswer(
        at=sample.at,
        age=max(0.0, (now - sample.at).total_seconds()),
        total=depth_answer(sample.total),
        queues={name: depth_answer(depth) for name, depth in sample.queues.items()},
        queues_more=sample.queues_more,
        unknown_tasks=dict(sample.unknown_tasks),
        dead_letters=sample.dead_letters,
        workers=sample.workers,
        slots=sample.slots,
        ended=None if ended is None else dict(ended.jobs),
        ended_at=None if ended is None else ended.at,
    )


def depth_answer(depth: Depth) -> DepthAnswer:
    return DepthAnswer(
        waiting=depth.waiting,
        due=depth.due,
        running=depth.running,
        blocked=depth.blocked,
        oldest_due_at=depth.oldest_due_at,
    )
