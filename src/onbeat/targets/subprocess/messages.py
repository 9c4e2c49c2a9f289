"""Messages between a worker and its isolated process: JSON, no pickled objects."""

import msgspec

from onbeat.model.job import Job, Progress


class RunCommand(msgspec.Struct, frozen=True):
    """One attempt: the module that defines the task, and the claimed job."""

    module: str
    job: Job


class RunResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """The outcome of the attempt, or its progress while it runs."""

    kind: str
    text: str = ""
    seconds: float = 0.0
    retryable: bool = True
    progress: Progress | None = None
