"""Structured logging: event names with fields, over the standard library's logging.

A program that uses Onbeat as a library sees them as text in its own logging; the service renders
the fields as its settings say (`onbeat.telemetry.log`).
"""

import logging
from types import TracebackType
from typing import Any

ExceptionInfo = tuple[type[BaseException], BaseException, TracebackType | None]


class LogLine:
    """The message of a log record: as text `job.failed job=… attempt=2`, or as separate fields."""

    __slots__ = ("event", "fields")

    def __init__(self, event: str, fields: dict[str, Any]) -> None:
        self.event = event
        self.fields = fields

    def __str__(self) -> str:
        return " ".join((self.event, *(f"{key}={value}" for key, value in self.fields.items())))


class Log:
    """A named logger whose lines are events with fields; `bind` adds fields to all of them."""

    __slots__ = ("bound", "logger")

    def __init__(self, name: str, **bound: Any) -> None:
        self.logger = logging.getLogger(name)
        self.bound = bound

    def bind(self, **fields: Any) -> "Log":
        return Log(self.logger.name, **self.bound | fields)

    def debug(self, event: str, **fields: Any) -> None:
        self.write(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: Any) -> None:
        self.write(logging.INFO, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        self.write(logging.WARNING, event, fields)

    def error(self, event: str, error: BaseException | None = None, /, **fields: Any) -> None:
        """With `error`, its traceback is logged too; a field may also be named `error`."""
        self.write(logging.ERROR, event, fields, error)

    def write(
        self, level: int, event: str, fields: dict[str, Any], error: BaseException | None = None
    ) -> None:
        if self.logger.isEnabledFor(level):
            line = LogLine(event, self.bound | fields)
            self.logger.log(level, line, exc_info=error, stacklevel=3)
