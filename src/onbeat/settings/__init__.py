"""The settings of one process: a frozen record, read once."""

from onbeat.settings.load import load
from onbeat.settings.records import (
    ApiSettings,
    HttpSettings,
    LogFormat,
    LogLevel,
    LogSettings,
    PlannerSettings,
    PruneSettings,
    RetrySettings,
    Role,
    Settings,
    WorkerSettings,
)

__all__ = [
    "ApiSettings",
    "HttpSettings",
    "LogFormat",
    "LogLevel",
    "LogSettings",
    "PlannerSettings",
    "PruneSettings",
    "RetrySettings",
    "Role",
    "Settings",
    "WorkerSettings",
    "load",
]
