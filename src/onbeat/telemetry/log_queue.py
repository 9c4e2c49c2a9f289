"""Log destinations beyond this machine: a queue of bounded length, and a thread that sends."""

import logging
import socket
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, Protocol

LINES_MAX: Final = 10_000  # lines that wait; further ones are dropped and counted
CHARS_MAX: Final = 1 << 24  # of all lines that wait: a traceback or a handler's line may be long
BATCH_MAX: Final = 500
CONNECT_SECONDS: Final = 5.0
RETRY_SECONDS: Final = 1.0
CLOSE_SECONDS: Final = 2.0  # for the last lines at the end of the process
CLOUDWATCH_SECONDS: Final = 5  # between two requests
SENDERS: Final = frozenset({"boto3", "botocore", "s3transfer", "urllib3", "watchtower"})

log = logging.getLogger("onbeat.telemetry")


class Sink(Protocol):
    """Sends formatted records to one place. Used by one thread."""

    def send(self, records: Sequence[logging.LogRecord]) -> None:
        """Connects when needed. May raise anything; the same records are then sent again."""
        ...

    def close(self) -> None: ...


class QueueHandler(logging.Handler):
    """Queues formatted lines for a sink, so that no caller waits for the network.

    While the sink is unreachable, at most `LINES_MAX` lines of together `CHARS_MAX` characters
    wait; `log.lines_dropped` then reports how many more there were. A line may arrive twice after a
    failure, and the last ones may be lost.
    """

    def __init__(self, destination: str, sink: Sink) -> None:
        super().__init__()
        self.destination = destination
        self.sink = sink
        self.waiting: deque[logging.LogRecord] = deque()
        self.chars = 0
        self.dropped = 0
        self.changed = threading.Condition()
        self.closing = threading.Event()
        self.thread = threading.Thread(target=self.work, name="onbeat-log", daemon=True)
        self.thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            # Now, since objects in the record may change.
            text = self.format(record)
        except Exception:  # noqa: BLE001  the standard way to report a faulty log call
            self.handleError(record)
            return
        with self.changed:
            if len(self.waiting) >= LINES_MAX or self.chars + len(text) > CHARS_MAX:
                self.dropped += 1
            else:
                self.waiting.append(formatted(record, text))
                self.chars += len(text)
            self.changed.notify()

    def close(self) -> None:
        """Send what waits for at most `CLOSE_SECONDS`."""
        self.closing.set()
        with self.changed:
            self.changed.notify()
        self.thread.join(CLOSE_SECONDS)
        super().close()

    def work(self) -> None:
        while (records := self.take()) and self.deliver(records):
            pass
        self.sink.close()

    def take(self) -> Sequence[logging.LogRecord]:
        """The next lines, and how many were dropped behind them; none at the end."""
        with self.changed:
            self.changed.wait_for(
                lambda: self.waiting or self.dropped or self.closing.is_set(),
            )
            records = [self.waiting.popleft() for _ in range(min(BATCH_MAX, len(self.waiting)))]
            self.chars -= sum(len(record.msg) for record in records)
            dropped, self.dropped = self.dropped, 0
        return [*records, self.report_of(dropped)] if dropped else records

    def report_of(self, dropped: int) -> logging.LogRecord:
        extra = {"destination": self.destination, "lines": dropped}
        record = log.makeRecord(
            log.name, logging.WARNING, "", 0, "log.lines_dropped", (), None, extra=extra
        )
        return formatted(record, self.format(record))

    def deliver(self, records: Sequence[logging.LogRecord]) -> bool:
        """Retry until the sink accepts them; False if the handler was closed meanwhile."""
        is_reported = False
        while True:
            try:
                self.sink.send(records)
            except Exception as error:  # noqa: BLE001  a network and a client library raise anything
                if not is_reported:
                    extra = {"destination": self.destination, "error": str(error)}
                    log.warning("log.unreachable", extra=extra)
                    is_reported = True
                if self.closing.wait(RETRY_SECONDS):
                    return False
            else:
                return True


def formatted(record: logging.LogRecord, line: str) -> logging.LogRecord:
    """A record whose message is the formatted line."""
    copy = logging.LogRecord(record.name, record.levelno, "", 0, line, None, None)
    copy.created, copy.msecs = record.created, record.msecs
    return copy


class TcpSink:
    """Lines of JSON over TCP, for example to the `tcp` input of Logstash, Vector or Fluent Bit."""

    def __init__(self, host: str, port: int) -> None:
        self.address = (host, port)
        self.connection: socket.socket | None = None

    def send(self, records: Sequence[logging.LogRecord]) -> None:
        if self.connection is not None and is_closed(self.connection):
            self.close()
        if self.connection is None:
            self.connection = socket.create_connection(self.address, CONNECT_SECONDS)
        try:
            self.connection.sendall("".join(f"{record.msg}\n" for record in records).encode())
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()


def is_closed(connection: socket.socket) -> bool:
    """Whether the peer has closed it. The kernel would still accept the next lines."""
    connection.settimeout(0)
    try:
        return connection.recv(1 << 16) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        connection.settimeout(CONNECT_SECONDS)


class CloudWatchSink:
    """CloudWatch Logs, by watchtower; boto3 finds region and credentials."""

    def __init__(self, group: str) -> None:
        """Raises ImportError without watchtower, and botocore's errors, as for no region."""
        import boto3  # noqa: PLC0415  slow to load
        from watchtower import CloudWatchLogHandler  # noqa: PLC0415  as above

        self.group = group
        # boto3 has clients for every service; only the types of SQS are installed.
        self.client: Any = boto3.client("logs")  # pyright: ignore[reportUnknownMemberType]
        self.handler_class: type[logging.Handler] = CloudWatchLogHandler
        self.handler: logging.Handler | None = None

    def send(self, records: Sequence[logging.LogRecord]) -> None:
        if self.handler is None:
            self.handler = self.connect()
        for record in records:
            self.handler.handle(record)

    def connect(self) -> logging.Handler:
        """Creates the log group where it does not exist."""
        options: dict[str, Any] = {
            "log_group_name": self.group,
            "log_stream_name": "{machine_name}/{process_id}",
            "boto3_client": self.client,
            "send_interval": CLOUDWATCH_SECONDS,
        }
        handler = self.handler_class(**options)
        handler.setFormatter(logging.Formatter("%(message)s"))
        return handler

    def close(self) -> None:
        if self.handler is not None:
            self.handler.close()


def is_of_others(record: logging.LogRecord) -> bool:
    """False for what the client library logs while it sends log lines."""
    return record.name.partition(".")[0] not in SENDERS
