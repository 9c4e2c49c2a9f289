"""The records of the picture of `onbeat top`: numbers and instants, as `--once --json` has them."""

from datetime import datetime

import msgspec

from onbeat.model.alert import Level
from onbeat.rules.verdict import QueueState
from onbeat.wire.workers import RunningAnswer


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """What needs somebody. `since` is known once the alert was raised."""

    key: str
    level: Level
    text: str
    detail: str
    since: datetime | None
    silenced: bool = False


class Numbers(msgspec.Struct, frozen=True, kw_only=True):
    """HourRates are per second in the last minute, None where nothing was measured.

    `fires` are those of the next ten minutes, None with too many schedules to look at.
    """

    started: float | None
    failed: float | None
    oldest_due_seconds: float | None
    oldest_due_queue: str | None
    due: int
    waiting: int
    running: int
    slots: int
    workers: int
    silent: int
    fires: int | None


class HourRates(msgspec.Struct, frozen=True, kw_only=True):
    """Attempts per second in each step of the last hour, the newest last."""

    seconds: float
    started: tuple[float | None, ...]
    failed: tuple[float | None, ...]


class QueueLine(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    paused: bool
    due: int
    waiting: int
    running: int
    running_max: int | None
    oldest_due_seconds: float | None
    state: QueueState


class FailureLine(msgspec.Struct, frozen=True, kw_only=True):
    """`failed` and `waiting` count jobs, up to 1,001."""

    fault: str
    title: str
    task: str
    attempts: int
    failed: int
    waiting: int
    last_at: datetime
    silenced: bool


class WorkerLine(msgspec.Struct, frozen=True, kw_only=True):
    """A worker, or with `remote` one that speaks the protocol: of that only its jobs are known."""

    id: str
    name: str
    remote: bool
    alive: bool
    running: int
    slots: int | None
    beat_at: datetime | None
    tasks: tuple[str, ...]
    queues: tuple[str, ...] | None
    jobs: tuple[RunningAnswer, ...]


class FireLine(msgspec.Struct, frozen=True, kw_only=True):
    at: datetime
    id: str
    name: str
    rule: str
    queue: str


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is shown, as of `at`, the worst trouble first."""

    at: datetime
    troubles: tuple[Trouble, ...]
    last_failure: datetime | None
    numbers: Numbers
    rates: HourRates
    queues: tuple[QueueLine, ...]
    failures: tuple[FailureLine, ...]
    workers: tuple[WorkerLine, ...]
    fires: tuple[FireLine, ...]
