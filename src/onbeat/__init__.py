"""Durable job queue and scheduler for Python."""

# Each name is imported on first use, so that the command line and users of recurrences alone do not
# load the engine. Type checkers read the plain imports; a test compares the two.

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from onbeat.app.batch import Batch
    from onbeat.app.call import Call, command, http, message, notify, on_end, on_failure
    from onbeat.app.client import Onbeat
    from onbeat.app.condition import Condition
    from onbeat.app.handle import Job, JobFailed
    from onbeat.app.options import HttpOptions, KeepRule, Options, Role, RuntimeOptions, Template
    from onbeat.app.remote_tasks import remote_task
    from onbeat.app.retry import Retry
    from onbeat.app.task import CURRENT, AsyncTask, Context, Event, FanOut, Task
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

PLACES: Final = {
    "onbeat.app.batch": "Batch",
    "onbeat.app.call": "Call command http message notify on_end on_failure",
    "onbeat.app.client": "Onbeat",
    "onbeat.app.condition": "Condition",
    "onbeat.app.options": "HttpOptions KeepRule Options Role RuntimeOptions Template",
    "onbeat.app.handle": "Job JobFailed",
    "onbeat.app.remote_tasks": "remote_task",
    "onbeat.app.retry": "Retry",
    "onbeat.app.task": "CURRENT AsyncTask Context Event FanOut Task",
    "onbeat.model.errors": (
        "BadRecurrence Conflict Forbidden Invalid LeaseLost Misconfigured "
        "NotFound OnbeatError Unauthorized Unavailable"
    ),
    "onbeat.model.signals": "Cancel Fail Snooze",
    "onbeat.recurrence": "Recurrence cron daily every first_of_month once rrule weekly",
}
"""The public names by module."""


def __getattr__(name: str) -> Any:
    for module, names in PLACES.items():
        if name in names.split():
            value = getattr(import_module(module), name)
            globals()[name] = value
            return value
    if name == "recurrence":
        return import_module("onbeat.recurrence")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "CURRENT",
    "AsyncTask",
    "BadRecurrence",
    "Batch",
    "Call",
    "Cancel",
    "Condition",
    "Conflict",
    "Context",
    "Event",
    "Fail",
    "FanOut",
    "Forbidden",
    "HttpOptions",
    "Invalid",
    "Job",
    "JobFailed",
    "KeepRule",
    "LeaseLost",
    "Misconfigured",
    "NotFound",
    "Onbeat",
    "OnbeatError",
    "Options",
    "Recurrence",
    "Retry",
    "Role",
    "RuntimeOptions",
    "Snooze",
    "Task",
    "Template",
    "Unauthorized",
    "Unavailable",
    "command",
    "cron",
    "daily",
    "every",
    "first_of_month",
    "http",
    "message",
    "notify",
    "on_end",
    "on_failure",
    "once",
    "remote_task",
    "rrule",
    "weekly",
]
