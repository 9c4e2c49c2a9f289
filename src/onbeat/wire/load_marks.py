"""The marks by which a load knows its jobs, and when each was to be sent."""

from datetime import timedelta
from typing import Final

from onbeat.wire.bulks import label_filter
from onbeat.wire.jobs import EnqueueBody, JobInfo
from onbeat.wire.targets import TargetBody

RUN: Final = "load"
SENT_AFTER: Final = "load.after"


def load_body(run: str, after: float, queue: str, target: TargetBody) -> EnqueueBody:
    """The request for a job that is to be sent `after` seconds from the start of the load."""
    microseconds = round(after * 1_000_000)
    return EnqueueBody(target=target, queue=queue, labels={RUN: run, SENT_AFTER: str(microseconds)})


def sent_after(job: JobInfo) -> timedelta:
    """The span from the start of the load at which the job was to be sent."""
    text = job.labels.get(SENT_AFTER, "")
    # Whoever adds jobs may mark them alike.
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(10**12))
    return timedelta(microseconds=int(text) if is_number else 0)


def load_filter(run: str) -> str:
    """The filter for the jobs of a load."""
    return label_filter((f"{RUN}:{run}",))
