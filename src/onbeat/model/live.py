"""What happens in a service, as those who watch it live are told."""

from datetime import datetime
from typing import Literal, Protocol

import msgspec

from onbeat.model.job import JobState

LiveKind = Literal["job", "schedule", "queue", "flow", "log", "fault", "alert", "bulk"]


class LiveEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One change of a thing of this kind; `to` is its state or what was done.

    Of the kind `log` the id is that of a job whose handler logged something.

    It has no payload, result or error: a reader asks for those. `before` is the state before, where
    it is known. The id of an alert is its key; silences are told as alerts. `jobs` counts the
    jobs that a bulk changed with it, `done` all that it has changed.
    """

    kind: LiveKind
    id: str
    at: datetime
    to: str
    before: str | None = None
    task: str | None = None
    queue: str | None = None
    attempt: int | None = None
    cause: str | None = None
    schedule_id: str | None = None
    flow: str | None = None
    labels: dict[str, str] | None = None
    jobs: int = 0
    done: int | None = None

    def has_label(self, key: str, value: str) -> bool:
        return self.labels is not None and self.labels.get(key) == value


class JobView(Protocol):
    """What a job and the answer of a job have in common."""

    @property
    def id(self) -> str: ...
    @property
    def state(self) -> JobState: ...
    @property
    def queue(self) -> str: ...
    @property
    def attempt(self) -> int: ...
    @property
    def schedule_id(self) -> str | None: ...
    @property
    def flow(self) -> str | None: ...
    @property
    def labels(self) -> dict[str, str]: ...


def event_of(
    job: JobView,
    task: str | None,
    at: datetime,
    *,
    before: JobState | None = None,
    cause: str | None = None,
) -> LiveEvent:
    """The job is in its state now, and was in `before`."""
    return LiveEvent(
        kind="job",
        id=job.id,
        at=at,
        to=job.state.value,
        before=None if before is None else before.value,
        task=task,
        queue=job.queue,
        attempt=job.attempt or None,
        cause=cause,
        schedule_id=job.schedule_id,
        flow=job.flow,
        labels=job.labels or None,
    )


class LiveCounts(msgspec.Struct, frozen=True, omit_defaults=True):
    """Attempts that started, and jobs that succeeded or failed for good, in one span of time.

    `lateness` counts the starts by how late they were, in the buckets of `rules.live_feed`.
    """

    started: int = 0
    succeeded: int = 0
    failed: int = 0
    lateness: tuple[int, ...] = ()


class LiveBatch(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one process saw within one span; `missed` counts the events that had no room."""

    events: tuple[LiveEvent, ...] = ()
    counts: LiveCounts = LiveCounts()
    missed: int = 0


class StreamBatch(msgspec.Struct, frozen=True, kw_only=True):
    """A `LiveBatch` of one process on its way to another; `body` is its JSON.

    `seq` rises by one from batch to batch of a process.
    """

    source: str
    seq: int
    at: datetime
    body: str
    missed: int = 0
