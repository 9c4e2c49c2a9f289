"""The environment of a command: few variables of the worker, those of the job, and its own."""

import os
from collections.abc import Mapping
from typing import Final

import msgspec

from onbeat.model.job import Job
from onbeat.model.target import CommandTarget
from onbeat.model.trace_context import trace_context
from onbeat.ports.tracing import active_trace

KEPT: Final = ("PATH", "HOME", "LANG", "TZ")
"""Of the worker's own variables, which may hold secrets."""


def environment_of(
    job: Job, target: CommandTarget, worker: Mapping[str, str] = os.environ
) -> dict[str, str]:
    kept = {name: worker[name] for name in KEPT if name in worker}
    return kept | target.env | variables_of(job)


def variables_of(job: Job) -> dict[str, str]:
    """What a callback has as headers. `ONBEAT_IDEMPOTENCY_KEY` is the same for every attempt."""
    variables = {
        "ONBEAT_JOB_ID": job.id,
        "ONBEAT_ATTEMPT": str(job.attempt),
        "ONBEAT_TOKEN": str(job.token),
        "ONBEAT_IDEMPOTENCY_KEY": job.id,
        "ONBEAT_SCHEDULED_AT": msgspec.to_builtins(job.occurrence or job.due_at),
    }
    if job.schedule_id is not None:
        variables["ONBEAT_SCHEDULE_ID"] = job.schedule_id
    trace = active_trace() or trace_context(job.traceparent, job.tracestate)
    if trace is not None:
        variables |= {name.upper(): text for name, text in trace.headers().items()}
    return variables
