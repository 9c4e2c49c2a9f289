"""Messages between a worker and its isolated process: JSON, no pickled objects."""

from collections.abc import Sequence
from datetime import datetime

import msgspec
from msgspec.structs import replace

from onbeat.model.event import Event
from onbeat.model.job import Job, Progress
from onbeat.model.log_line import LogEntry
from onbeat.model.trace_context import TraceContext
from onbeat.ports.job_log import ATTEMPT_LOG
from onbeat.ports.tracing import active_trace
from onbeat.targets.app_context import AppContext
from onbeat.targets.predecessors import PriorJob

NO_DATA = msgspec.Raw(b"null")


class RunCommand(msgspec.Struct, frozen=True):
    """One attempt: the module that defines the task, the claimed job, its events, its predecessors.

    The `data` of events is apart, as a record cannot be decoded in which raw JSON is optional.
    `now` is the worker's time when the command is sent; its clock may stand still. `trace` is the
    worker's span of the attempt, `kept_level` the least level of its log that is kept.
    """

    module: str
    job: Job
    bare_events: tuple[Event, ...] = ()
    data: tuple[msgspec.Raw, ...] = ()
    earlier: tuple[PriorJob, ...] = ()
    now: datetime | None = None
    clock_stands: bool = False
    trace: TraceContext | None = None
    kept_level: int | None = None

    @property
    def events(self) -> Sequence[Event]:
        return tuple(
            replace(event, data=None if data == NO_DATA else data)
            for event, data in zip(self.bare_events, self.data, strict=True)
        )


def run_command(
    module: str, job: Job, events: Sequence[Event], earlier: Sequence[PriorJob]
) -> RunCommand:
    log = ATTEMPT_LOG.get()
    return RunCommand(
        module,
        replace(job, result=None),
        tuple(replace(event, data=None) for event in events),
        tuple(event.data or NO_DATA for event in events),
        tuple(earlier),
        trace=active_trace(),
        kept_level=None if log is None else log.kept_level,
    )


def stamped(order: RunCommand, program: AppContext | None) -> RunCommand:
    """The command with the time at which it is sent."""
    if program is None:
        return order
    return replace(order, now=program.clock.now(), clock_stands=program.clock_stands)


class RunResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """The outcome of the attempt, or its progress or a line of its log while it runs."""

    kind: str
    text: str = ""
    seconds: float = 0.0
    retryable: bool = True
    progress: Progress | None = None
    entry: LogEntry | None = None

    @property
    def is_outcome(self) -> bool:
        return self.progress is None and self.entry is None
