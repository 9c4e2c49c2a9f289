from datetime import UTC, datetime, timedelta
from typing import Any

from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.model.target import HandlerTarget

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def a_job(task: str = "mail.welcome", **fields: Any) -> Job:
    named: dict[str, Any] = {
        "id": JobId("0192"),
        "target": HandlerTarget(task),
        "created_at": NOON,
        "due_at": NOON,
    }
    return Job(**(named | fields))
