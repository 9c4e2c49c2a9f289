"""Onbeat runs work on time, once it is due, and remembers."""

from onbeat.app.calls import Call, http
from onbeat.app.client import Onbeat
from onbeat.app.composition import Options
from onbeat.app.handle import Job, JobFailed
from onbeat.app.retry import Retry
from onbeat.app.task import Context, Task
from onbeat.model.errors import (
    BadRecurrence,
    Conflict,
    Forbidden,
    Invalid,
    LeaseLost,
    Misconfigured,
    NotFound,
    OnbeatError,
    Unauthorized,
    Unavailable,
)
from onbeat.model.signals import Cancel, Fail, Snooze
from onbeat.recurrence import (
    Recurrence,
    cron,
    daily,
    every,
    first_of_month,
    once,
    rrule,
    weekly,
)

__all__ = [
    "BadRecurrence",
    "Call",
    "Cancel",
    "Conflict",
    "Context",
    "Fail",
    "Forbidden",
    "Invalid",
    "Job",
    "JobFailed",
    "LeaseLost",
    "Misconfigured",
    "NotFound",
    "Onbeat",
    "OnbeatError",
    "Options",
    "Recurrence",
    "Retry",
    "Snooze",
    "Task",
    "Unauthorized",
    "Unavailable",
    "cron",
    "daily",
    "every",
    "first_of_month",
    "http",
    "once",
    "rrule",
    "weekly",
]
