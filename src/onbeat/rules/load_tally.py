"""What became of the jobs of a load."""

from datetime import datetime

import msgspec

from onbeat.model.job import FINAL_STATES, JobState
from onbeat.model.limits import LOAD_ERRORS_MAX
from onbeat.model.load import LoadPlan
from onbeat.rules.percentiles import Durations, Percentiles

OTHERS = "other errors"


class LoadReport(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a load; durations are in seconds.

    `offered` are the jobs that were to be sent up to the end or the interruption, `sent` those that
    the service accepted, `found` those that it knows of. `send` is from the intended time of a
    request to its answer, `sender_lag` from the intended time to the real one. `start` is from due
    to started, `end_to_end` from the intended time of the request to the end of the job; both are
    of ended jobs, and `clock_error` is by how much `end_to_end` may be wrong. `unended` jobs are
    waiting or running. Where `is_read` is false nobody looked for the ends, or nothing answered.
    """

    run: str
    task: str
    queue: str
    seconds: float
    offered_rate: float
    sent_rate: float
    ended_rate: float | None
    offered: int
    sent: int
    found: int
    ended: dict[JobState, int]
    unended: int
    errors: dict[str, int]
    failures: dict[str, int]
    send: Percentiles
    sender_lag: Percentiles
    start: Percentiles
    end_to_end: Percentiles
    clock_error: float
    is_read: bool
    is_interrupted: bool

    @property
    def is_clean(self) -> bool:
        """Whether every job was accepted, and has succeeded if somebody looked."""
        if self.errors or self.is_interrupted or self.sent < self.offered:
            return False
        return not self.is_read or self.ended.get(JobState.SUCCEEDED, 0) == self.sent == self.found


class LoadTally:
    """Counts what is sent and what has ended, in memory that the number of jobs does not change."""

    def __init__(self) -> None:
        self.offered = 0
        self.sent = 0
        self.seconds = 0.0
        self.errors: dict[str, int] = {}
        self.send = Durations()
        self.sender_lag = Durations()
        self.ends = LoadEnds()

    def offer(self, lag: float) -> None:
        """A request begins `lag` seconds after its time."""
        self.offered += 1
        self.sender_lag.record(lag)

    def accept(self, latency: float, at: float) -> None:
        """A request was answered `at` seconds after the start of the load."""
        self.sent += 1
        self.send.record(latency)
        self.seconds = max(self.seconds, at)

    def refuse(self, error: str, at: float) -> None:
        add_to(self.errors, error)
        self.seconds = max(self.seconds, at)

    def report(
        self,
        plan: LoadPlan,
        *,
        start: datetime,
        clock_error: float,
        is_read: bool,
        is_interrupted: bool,
    ) -> LoadReport:
        ends = self.ends
        # An early last answer does not make the rate higher.
        least = 0.0 if is_interrupted else plan.span
        seconds = max(self.seconds, least)
        passed = None if ends.last is None else (ends.last - start).total_seconds()
        return LoadReport(
            run=plan.run,
            task=plan.task,
            queue=plan.queue,
            seconds=seconds,
            offered_rate=plan.rate,
            sent_rate=rate_of(self.sent, seconds),
            ended_rate=None if passed is None else rate_of(ends.count, max(passed, least)),
            offered=self.offered,
            sent=self.sent,
            found=ends.count + ends.live,
            ended=ends.states,
            unended=ends.live,
            errors=self.errors,
            failures=ends.failures,
            send=self.send.percentiles(),
            sender_lag=self.sender_lag.percentiles(),
            start=ends.start.percentiles(),
            end_to_end=ends.end_to_end.percentiles(),
            clock_error=clock_error,
            is_read=is_read,
            is_interrupted=is_interrupted,
        )


class LoadEnds:
    """Counts jobs as they are listed, each once."""

    def __init__(self) -> None:
        self.count = 0
        self.live = 0
        self.last: datetime | None = None
        self.states: dict[JobState, int] = {}
        self.failures: dict[str, int] = {}
        self.start = Durations()
        self.end_to_end = Durations()

    def add(self, state: JobState) -> bool:
        """Whether the job has ended, so that its times count."""
        if state not in FINAL_STATES:
            self.live += 1
            return False
        self.count += 1
        self.states[state] = self.states.get(state, 0) + 1
        return True

    def time(
        self, sent_at: datetime, due_at: datetime, started_at: datetime | None, ended_at: datetime
    ) -> None:
        """`sent_at` is when the job was to be sent, by the clock of the service."""
        self.last = ended_at if self.last is None else max(self.last, ended_at)
        self.end_to_end.record((ended_at - sent_at).total_seconds())
        if started_at is not None:
            self.start.record((started_at - due_at).total_seconds())

    def fail(self, reason: str) -> None:
        add_to(self.failures, reason)


def add_to(counts: dict[str, int], kind: str) -> None:
    """Count a kind; those after the first ones are counted together."""
    if kind not in counts and len(counts) >= LOAD_ERRORS_MAX:
        kind = OTHERS
    counts[kind] = counts.get(kind, 0) + 1


def rate_of(count: int, seconds: float) -> float:
    """A rate to three digits after the point; 0 where no time has passed."""
    return round(count / seconds, 3) if seconds > 0 else 0.0
