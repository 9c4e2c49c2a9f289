"""What conditions, keys of events and templates read of jobs and events.

Times in it are RFC 3339 texts, as in answers.
"""

from typing import Final

import msgspec

from onbeat.model.event import Event
from onbeat.model.job import Job
from onbeat.model.target import lane_of
from onbeat.recurrence.instants import write_instant

JOB_FACTS: Final = frozenset({
    "id", "task", "attempt", "queue", "priority", "group", "unique", "labels", "schedule_id",
    "created_at", "run_at",
})  # fmt: skip


def no_such_fact(member: str) -> str:
    return f"job has no {member!r}; it has {', '.join(sorted(JOB_FACTS))}"


def job_facts(job: Job) -> dict[str, object]:
    """The facts of `JOB_FACTS`."""
    return {
        "id": job.id,
        "task": lane_of(job.target),
        "attempt": job.attempt,
        "queue": job.queue,
        "priority": job.priority,
        "group": job.group,
        "unique": job.unique,
        "labels": job.labels,
        "schedule_id": job.schedule_id,
        "created_at": write_instant(job.created_at),
        "run_at": write_instant(job.due_at),
    }


def event_facts(event: Event) -> dict[str, object]:
    """The attributes that are set, and its extensions, by name."""
    attributes = {
        "id": event.id,
        "source": event.source,
        "type": event.type,
        "time": write_instant(event.time),
        "subject": event.subject,
        "datacontenttype": event.datacontenttype,
        "dataschema": event.dataschema,
    }
    given: dict[str, object] = {name: value for name, value in attributes.items() if value}
    if event.data is not None:
        given["data"] = msgspec.json.decode(event.data)
    return {**event.extensions, **given}
