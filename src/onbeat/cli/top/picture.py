"""The picture of `onbeat top`: numbers and instants, made of answers. No clock, no words."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec import UNSET

from onbeat.cli.top.answers import Answers
from onbeat.cli.top.records import (
    FailureLine,
    FireLine,
    HourRates,
    Numbers,
    Picture,
    QueueLine,
    Trouble,
    WorkerLine,
)
from onbeat.model.alert import Level
from onbeat.operations.alerts import (
    failed_by_minute,
    fault_load,
    load_of_answer,
    unknown_tasks_of,
)
from onbeat.rules.verdict import concerns, needs_look_first, served_by, state_of_queue
from onbeat.wire.alerts import AlertAnswer
from onbeat.wire.failures import FailureInfo
from onbeat.wire.pulses import PointAnswer
from onbeat.wire.queues import QueueAnswer
from onbeat.wire.workers import WorkersAnswer

MINUTE: Final = 60
FIRES_SHOWN: Final = 50
NOT_COMPUTED: Final = frozenset({"disk"})
"""Alerts that only the service itself can see; the others are found anew in the answers."""


def picture_of(answers: Answers) -> Picture:
    points, now = answers.slow.hour.points, answers.at
    failures = answers.failures.failures
    return Picture(
        at=now,
        troubles=troubles_of(answers),
        last_failure=max((one.last_at for one in failures), default=None),
        numbers=numbers_of(answers),
        rates=HourRates(
            seconds=points[0].seconds,
            started=tuple(per_second(point, point.started) for point in points),
            failed=tuple(per_second(point, point.failed) for point in points),
        ),
        queues=queue_lines(answers.queues.queues, now),
        failures=tuple(failure_line(one, now) for one in failures),
        workers=worker_lines(answers.workers),
        fires=fire_lines(answers),
    )


def troubles_of(answers: Answers) -> tuple[Trouble, ...]:
    """What the dashboard finds, by the same rule, with the time since when alerts tell of it."""
    alerts = {alert.key: alert for alert in answers.alerts.alerts}
    alive = [worker for worker in answers.workers.workers if worker.alive]
    found = concerns(
        [load_of_answer(queue) for queue in answers.queues.queues],
        len(alive),
        (),
        answers.at,
        served_by(None if one.queues is UNSET else one.queues for one in alive),
        failed_by_minute(answers.slow.hour.points),
        [fault_load(one, answers.at) for one in answers.failures.failures],
        unknown_tasks_of(answers.slow.hour.sample),
    )
    troubles = [
        trouble(one.key, one.level, one.text, one.detail, alerts.get(one.key)) for one in found
    ]
    of_service = [
        trouble(key, level_of(alert), alert.text, alert.detail, alert)
        for key, alert in alerts.items()
        if key in NOT_COMPUTED
    ]
    return (*of_service, *troubles)


def trouble(key: str, level: Level, text: str, detail: str, alert: AlertAnswer | None) -> Trouble:
    since, silenced = (None, False) if alert is None else (alert.since, alert.silenced)
    return Trouble(key=key, level=level, text=text, detail=detail, since=since, silenced=silenced)


def level_of(alert: AlertAnswer) -> Level:
    return "fail" if alert.level == "fail" else "warn"


def numbers_of(answers: Answers) -> Numbers:
    queues, workers = answers.queues.queues, answers.workers.workers
    points = answers.slow.hour.points
    minute = points[-round(MINUTE / points[0].seconds) :]
    alive = [worker for worker in workers if worker.alive]
    dated = [(one.oldest_due_at, one.name) for one in queues if not one.paused]
    oldest = min(((at, name) for at, name in dated if at is not None), default=None)
    return Numbers(
        started=mean_rate([(point.started, point.seconds) for point in minute]),
        failed=mean_rate([(point.failed, point.seconds) for point in minute]),
        oldest_due_seconds=None if oldest is None else age(oldest[0], answers.at),
        oldest_due_queue=None if oldest is None else oldest[1],
        due=sum(queue.due for queue in queues),
        waiting=sum(queue.waiting for queue in queues),
        running=sum(queue.running for queue in queues),
        slots=sum(worker.concurrency for worker in alive),
        workers=len(alive),
        silent=len(workers) - len(alive),
        fires=answers.slow.fires,
    )


def mean_rate(counts: Sequence[tuple[int | None, float]]) -> float | None:
    """Per second, of the spans that were measured."""
    known = [(count, seconds) for count, seconds in counts if count is not None]
    seconds = sum(seconds for _, seconds in known)
    return sum(count for count, _ in known) / seconds if seconds else None


def per_second(point: PointAnswer, count: int | None) -> float | None:
    return None if count is None else count / point.seconds


def age(at: datetime, now: datetime) -> float:
    return max(0.0, (now - at) / timedelta(seconds=1))


def queue_lines(queues: Sequence[QueueAnswer], now: datetime) -> tuple[QueueLine, ...]:
    """Those that need somebody first, as the dashboard has them."""
    loads = [load_of_answer(queue) for queue in queues]
    places = {load.name: needs_look_first(load, now) for load in loads}
    lines = [
        QueueLine(
            name=queue.name,
            paused=queue.paused,
            due=queue.due,
            waiting=queue.waiting,
            running=queue.running,
            running_max=queue.limits.concurrency or None,
            oldest_due_seconds=None
            if queue.oldest_due_at is None
            else age(queue.oldest_due_at, now),
            state=state_of_queue(load, now),
        )
        for queue, load in zip(queues, loads, strict=True)
    ]
    return tuple(sorted(lines, key=lambda line: places[line.name]))


def failure_line(one: FailureInfo, now: datetime) -> FailureLine:
    return FailureLine(
        fault=one.fault,
        title=one.title,
        task=one.task,
        attempts=one.attempts,
        failed=one.failed,
        waiting=one.waiting,
        last_at=one.last_at,
        silenced=one.silenced_until is not None and one.silenced_until > now,
    )


def worker_lines(answer: WorkersAnswer) -> tuple[WorkerLine, ...]:
    """Silent ones first: they need somebody."""
    here = [
        WorkerLine(
            id=worker.id,
            name=f"{worker.host}:{worker.pid}",
            remote=False,
            alive=worker.alive,
            running=worker.running,
            slots=worker.concurrency,
            beat_at=worker.beat_at,
            tasks=worker.tasks,
            queues=None if worker.queues is UNSET else worker.queues,
            jobs=worker.jobs,
        )
        for worker in answer.workers
    ]
    away = [
        WorkerLine(
            id=f"remote:{worker.name}",
            name=worker.name,
            remote=True,
            alive=True,
            running=worker.running,
            slots=None,
            beat_at=None,
            tasks=(),
            queues=None,
            jobs=worker.jobs,
        )
        for worker in answer.remote
    ]
    return tuple(sorted((*here, *away), key=lambda line: (line.alive, line.remote, line.name)))


def fire_lines(answers: Answers) -> tuple[FireLine, ...]:
    """The next fire of each schedule, the first ones; none with too many schedules to look at."""
    if answers.slow.fires is None:
        return ()
    lines = [
        FireLine(at=one.next_at, id=one.id, name=one.name, rule=one.recurrence, queue=one.queue)
        for one in answers.slow.schedules.schedules
        if one.next_at is not None
    ]
    return tuple(sorted(lines, key=lambda line: (line.at, line.name))[:FIRES_SHOWN])
