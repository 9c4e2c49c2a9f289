"""Takes what handlers log by the standard `logging` to the log of their attempt."""

import logging
import sys
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, cast

from onbeat.model.log_line import LogEntry
from onbeat.ports.job_log import ATTEMPT_LOG
from onbeat.rules.log_lines import UNCLEAN_CHARS_MAX, plain_value, shortened

HANDLERS: Final = "onbeat.handler"
"""The logger of `context.log`. Other loggers of Onbeat do not speak for a handler."""

COMMON: Final = frozenset(
    {
        *vars(logging.makeLogRecord({})),
        *("message", "asctime", "taskName", "color_message"),
        *("job", "attempt", "trace_id", "span_id"),
    }
)
"""What all records have, those of jobs and of spans included; the rest are fields of the call."""

STRUCTLOG: Final = frozenset({"event", "level", "logger", "timestamp", "trace_id", "span_id"})
TRACES: Final = logging.Formatter()


class AttemptHandler(logging.Handler):
    """A handler of the root logger: it adds a record to the log of the attempt that runs here."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            keep(record)
        except Exception:  # noqa: BLE001  the standard way to report a faulty log call
            self.handleError(record)
        if logging.lastResort is not None and is_unheard(record, self):
            logging.lastResort.handle(record)


def keep(record: logging.LogRecord) -> None:
    log = ATTEMPT_LOG.get()
    if log is None or is_own(record.name):
        return
    level = log.kept_level
    if level is not None and record.levelno >= level:
        log.add_entry(entry_of(record))


def is_own(logger: str) -> bool:
    return (logger == "onbeat" or logger.startswith("onbeat.")) and logger != HANDLERS


def is_unheard(record: logging.LogRecord, ours: logging.Handler) -> bool:
    """Whether nothing else prints the record: our handler must not silence the last resort."""
    if logging.lastResort is None or record.levelno < logging.lastResort.level:
        return False
    logger: logging.Logger | None = logging.getLogger(record.name)
    while logger is not None:
        if any(handler is not ours for handler in logger.handlers):
            return False
        logger = logger.parent if logger.propagate else None
    return True


def entry_of(record: logging.LogRecord) -> LogEntry:
    """May raise anything, as the texts of what was logged do."""
    text, fields = message_of(record)
    text = shortened(text, UNCLEAN_CHARS_MAX)
    if trace := traceback_of(record):
        text = f"{text}\n{shortened(trace, UNCLEAN_CHARS_MAX)}"
    return LogEntry(
        at=datetime.fromtimestamp(record.created, UTC),
        level=record.levelname.lower(),
        logger=record.name,
        text=text,
        fields=cast("dict[str, Any]", plain_value(fields)),
    )


def message_of(record: logging.LogRecord) -> tuple[str, Mapping[str, object]]:
    """The text and the fields; structlog passes both as the message."""
    message: Any = record.msg
    if isinstance(message, dict) and "event" in message:
        event = cast("dict[str, object]", message)
        fields = {name: value for name, value in event.items() if name not in STRUCTLOG}
        return str(event["event"]), fields
    extra = {name: value for name, value in vars(record).items() if name not in COMMON}
    return record.getMessage(), extra


def traceback_of(record: logging.LogRecord) -> str:
    parts = [record.exc_text or (record.exc_info and TRACES.formatException(record.exc_info))]
    parts.append(record.stack_info)
    return "\n".join(filter(None, parts))


def exception_of(given: Any) -> Any:
    """The error of a log call in the form of records: an exception, its parts, or that in hand."""
    if isinstance(given, BaseException):
        return type(given), given, given.__traceback__
    if given and not isinstance(given, tuple):
        return sys.exc_info()
    return cast("Any", given) or None


class Installation:
    """The handler at the root logger, while any worker of this process keeps lines."""

    def __init__(self) -> None:
        self.handler = AttemptHandler()
        self.users = 0
        self.lock = threading.Lock()

    def attach(self) -> None:
        with self.lock:
            self.users += 1
            logging.getLogger().addHandler(self.handler)

    def detach(self) -> None:
        with self.lock:
            self.users -= 1
            if self.users == 0:
                logging.getLogger().removeHandler(self.handler)


INSTALLATION: Final = Installation()


class HandlerLogger(logging.LoggerAdapter[logging.Logger]):
    """Keeps what the attempt keeps also where the program's logging leaves it out."""

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802  the name of the base class
        return self.logger.isEnabledFor(level) or self.is_kept(level)

    def is_kept(self, level: int) -> bool:
        log = ATTEMPT_LOG.get()
        kept = None if log is None else log.kept_level
        return kept is not None and level >= kept

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        if self.logger.isEnabledFor(level):
            # Past this method, so that the record names the caller.
            kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1
            super().log(level, msg, *args, **kwargs)
        elif self.is_kept(level):
            message, given = self.process(msg, kwargs)
            INSTALLATION.handler.handle(self.record_of(level, message, args, given))

    def record_of(
        self, level: int, msg: object, args: tuple[object, ...], kwargs: Mapping[str, Any]
    ) -> logging.LogRecord:
        name, error = self.logger.name, exception_of(kwargs.get("exc_info"))
        extra = kwargs.get("extra")
        return self.logger.makeRecord(name, level, "", 0, msg, args, error, extra=extra)
