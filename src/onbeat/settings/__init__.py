"""The settings of one process: a frozen record, read once."""

from onbeat.model.role import Role
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
