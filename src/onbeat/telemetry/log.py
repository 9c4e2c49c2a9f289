"""The service's log: every line of the process, including other libraries, in one format."""

import logging
import os
import sys
from collections.abc import Callable, Collection, Mapping, MutableMapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Protocol, TextIO, cast
from urllib.parse import urlsplit

import structlog
from structlog.dev import ConsoleRenderer, plain_traceback
from structlog.processors import (
    JSONRenderer,
    LogfmtRenderer,
    StackInfoRenderer,
    format_exc_info,
)
from structlog.stdlib import ExtraAdder, ProcessorFormatter, add_log_level, add_logger_name

from onbeat.model.errors import Misconfigured
from onbeat.ports.tracing import active_ids
from onbeat.telemetry.redaction import Redact, escape_controls, redact_fields, redactor
from onbeat.telemetry.structured_log import LogLine

Event = MutableMapping[str, Any]
Processor = Callable[[Any, str, Event], Event]

LEADING_KEYS: Final = ("time", "level", "event")
CONSOLE_EVENT_WIDTH: Final = 20
COPIES: Final = ("message", "asctime", "color_message")
ACCESS_ARGS: Final = ("client", "method", "path", "http", "status")
LEVELLED: Final[set[str]] = set()
"""The loggers that have a level of their own by the settings."""
LOG_FILE_MODE: Final = 0o600  # log lines reveal what a service does and for whom


class LogOptions(Protocol):
    """The options of `onbeat.settings.LogSettings`."""

    @property
    def level(self) -> str: ...
    @property
    def levels(self) -> Mapping[str, str]:
        """The levels of single loggers, by name."""
        ...

    @property
    def format(self) -> str:
        """`console`, `logfmt`, `json`, or `auto`."""
        ...

    @property
    def destinations(self) -> tuple[str, ...]:
        """`stdout`, `file:PATH`, `tcp://HOST:PORT` and `cloudwatch:GROUP`."""
        ...


def configure_logging(options: LogOptions, *, secrets: Collection[str] = ()) -> None:
    """Send every log line of this process to the destinations. May be called again.

    `secrets` are values to hide in every line. Raises `Misconfigured` for a file that cannot be
    written, and for CloudWatch without its package or a region. A server that cannot be reached is
    retried for ever, in a thread.
    """
    redact = redactor(secrets)
    handlers = [handler_to(destination, options, redact) for destination in options.destinations]
    root = logging.getLogger()
    for old in [handler for handler in root.handlers if is_ours(handler)]:
        root.removeHandler(old)
        old.close()
    for handler in handlers:
        root.addHandler(handler)
    root.setLevel(options.level.upper())
    set_levels(options.levels)
    logging.captureWarnings(capture=True)
    take_over_uvicorn()
    route_structlog()


def set_levels(levels: Mapping[str, str]) -> None:
    """Set the levels of single loggers; those that an earlier call has set follow their parents."""
    for name in LEVELLED - levels.keys():
        logging.getLogger(name).setLevel(logging.NOTSET)
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level.upper())
    LEVELLED.clear()
    LEVELLED.update(levels)


def is_ours(handler: logging.Handler) -> bool:
    return isinstance(handler.formatter, ProcessorFormatter)


def handler_to(destination: str, options: LogOptions, redact: Redact) -> logging.Handler:
    if destination == "stdout":
        handler: logging.Handler = logging.StreamHandler(sys.stdout)
        handler.setFormatter(formatter(form_on(sys.stdout, options), redact, colors(sys.stdout)))
        return handler
    if destination.startswith("file:"):
        handler = handler_to_file(Path(destination.removeprefix("file:")))
        form = "logfmt" if options.format == "auto" else options.format
    else:
        handler, form = handler_to_network(destination), "json"
    handler.setFormatter(formatter(form, redact, with_colors=False))
    return handler


def handler_to_network(destination: str) -> logging.Handler:
    from onbeat.telemetry import log_queue  # noqa: PLC0415  sockets and threads, as below

    if destination.startswith("tcp:"):
        address = urlsplit(destination)
        assert address.hostname is not None, "the settings were checked"
        assert address.port is not None, "the settings were checked"
        sink: log_queue.Sink = log_queue.TcpSink(address.hostname, address.port)
        return log_queue.QueueHandler(destination, sink)
    try:
        sink = log_queue.CloudWatchSink(destination.removeprefix("cloudwatch:"))
    except ModuleNotFoundError as error:
        raise Misconfigured(
            f"log.destinations: {destination} needs {error.name}; run: pip install "
            "'onbeat[cloudwatch]'",
            key="log.destinations",
        ) from error
    except Exception as error:
        raise Misconfigured(
            f"log.destinations: {destination}: {error}", key="log.destinations"
        ) from error
    handler = log_queue.QueueHandler(destination, sink)
    handler.addFilter(log_queue.is_of_others)
    return handler


def handler_to_file(path: Path) -> logging.Handler:
    """Appends; reopens the file after a rotation."""
    # Imported here: its module loads sockets and threads that stdout does not need.
    from logging.handlers import WatchedFileHandler  # noqa: PLC0415

    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, LOG_FILE_MODE))
        return WatchedFileHandler(path, encoding="utf-8")
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise Misconfigured(
            f"log.destinations: {path} cannot be written: {reason}", key="log.destinations"
        ) from error


def form_on(stream: TextIO, options: LogOptions) -> str:
    if options.format != "auto":
        return options.format
    return "console" if stream.isatty() else "logfmt"


def is_on_terminal(options: LogOptions) -> bool:
    """Whether people read the lines where they are written."""
    return (
        "stdout" in options.destinations
        and sys.stdout.isatty()
        and form_on(sys.stdout, options) == "console"
    )


def colors(stream: TextIO) -> bool:
    """Only on a terminal, and not with NO_COLOR or a dumb terminal."""
    unwanted = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return stream.isatty() and not unwanted


def formatter(form: str, redact: Redact, with_colors: bool) -> ProcessorFormatter:  # noqa: FBT001
    return ProcessorFormatter(
        foreign_pre_chain=[
            ExtraAdder(),
            without_copies,
            line_fields,
            access_fields,
            span_fields,
            add_log_level,
            add_logger_name,
        ],
        processors=[
            time_of_record,
            StackInfoRenderer(),
            format_exc_info,
            ProcessorFormatter.remove_processors_meta,
            hide_secrets(redact),
            *rendering(form, with_colors=with_colors),
        ],
        pass_foreign_args=True,
    )


def rendering(form: str, *, with_colors: bool) -> list[Any]:
    match form:
        case "json":
            # ASCII only: the format itself escapes unprintable characters.
            return [put_first, JSONRenderer(default=str, ensure_ascii=True)]
        case "logfmt":
            return [put_first, clean_keys, escape_values, LogfmtRenderer(bool_as_flag=False)]
        case _:
            return [local_time, escape_values, indent_exception, console(with_colors=with_colors)]


def console(*, with_colors: bool) -> ConsoleRenderer:
    return ConsoleRenderer(
        colors=with_colors,
        exception_formatter=plain_traceback,  # other formatters show the values of local variables
        timestamp_key="time",
        pad_event_to=CONSOLE_EVENT_WIDTH,
        sort_keys=False,
    )


def without_copies(_logger: Any, _method: str, event: Event) -> Event:
    """Drops copies of the message that other formatters left on the record."""
    for key in COPIES:
        event.pop(key, None)
    return event


def line_fields(_logger: Any, _method: str, event: Event) -> Event:
    """The fields of our own lines in place of their text."""
    message = event["_record"].msg
    if isinstance(message, LogLine):
        event["event"] = message.event
        event.update(message.fields)
    return event


def access_fields(_logger: Any, _method: str, event: Event) -> Event:
    """Uvicorn's access line as fields."""
    args = event.pop("positional_args", None)
    if event["_record"].name == "uvicorn.access" and len(args or ()) == len(ACCESS_ARGS):
        event["event"] = "http.request"
        event.update(zip(ACCESS_ARGS, cast("tuple[Any, ...]", args), strict=True))
    return event


def span_fields(_logger: Any, _method: str, event: Event) -> Event:
    """The ids of the active span: a line is formatted in the thread or task that writes it."""
    for name, id in active_ids().items():
        event.setdefault(name, id)
    return event


def time_of_record(_logger: Any, _method: str, event: Event) -> Event:
    event["time"] = datetime.fromtimestamp(event["_record"].created, UTC)
    return event


def local_time(_logger: Any, _method: str, event: Event) -> Event:
    """Local time without the date, for people at a terminal."""
    time = cast("datetime", event["time"]).astimezone()
    event["time"] = time.strftime("%H:%M:%S.") + f"{time.microsecond // 1000:03d}"
    return event


def put_first(_logger: Any, _method: str, event: Event) -> Event:
    """Time, level and event first, with the time as RFC 3339 in UTC."""
    time = cast("datetime", event["time"])
    leading = {"time": time.isoformat(timespec="milliseconds").replace("+00:00", "Z")}
    leading |= {key: event[key] for key in LEADING_KEYS[1:]}
    return leading | {key: value for key, value in event.items() if key not in leading}


def hide_secrets(redact: Redact) -> Processor:
    def hide(_logger: Any, _method: str, event: Event) -> Event:
        time = event.pop("time")
        return {"time": time, **redact_fields(event, redact)}

    return hide


def clean_keys(_logger: Any, _method: str, event: Event) -> Event:
    """Keys valid in logfmt: without spaces, quotes or equals signs."""
    return {
        "".join("_" if c in '="' or c.isspace() or not c.isprintable() else c for c in key)
        or "_": value
        for key, value in event.items()
    }


def escape_values(_logger: Any, _method: str, event: Event) -> Event:
    """Escape line ends and terminal controls; tracebacks keep their lines until they are placed."""
    return {
        escape_controls(key): value
        if value is None or isinstance(value, bool | int | float)
        else escape_controls(str(value), keep_newlines=key in {"exception", "stack"})
        for key, value in event.items()
    }


def indent_exception(_logger: Any, _method: str, event: Event) -> Event:
    """Indent the lines of a traceback, so that none looks like a log line."""
    for key in ("exception", "stack"):
        if key in event:
            event[key] = "    " + str(event[key]).replace("\n", "\n    ")
    return event


def take_over_uvicorn() -> None:
    """Remove the handlers of uvicorn's loggers."""
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True


def route_structlog() -> None:
    """Route log lines of handlers that use structlog to this log."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.filter_by_level,
            add_log_level,
            add_logger_name,
            span_fields,
            ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
