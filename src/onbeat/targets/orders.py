"""What goes over the pipe between a worker and its isolated process: JSON, no pickled objects."""

import msgspec

from onbeat.model.job import Job, Progress


class Order(msgspec.Struct, frozen=True):
    """One attempt: the module that defines the task, and the job as it was claimed."""

    module: str
    job: Job


class Report(msgspec.Struct, frozen=True, omit_defaults=True):
    """What came of it, or on the way how far it is."""

    kind: str
    text: str = ""
    seconds: float = 0.0
    retryable: bool = True
    progress: Progress | None = None
