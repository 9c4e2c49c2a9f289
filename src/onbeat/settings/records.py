"""The settings of one process: frozen, read once, each with its meaning beside it."""

import ipaddress
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Final
from urllib.parse import urlsplit

import msgspec

from onbeat.model.limits import ATTEMPTS_MAX, DISK_FREE_PERCENT_MIN, SPAN_MAX
from onbeat.model.retry import Backoff, RetryPolicy
from onbeat.model.role import Role
from onbeat.settings.keys import Key
from onbeat.settings.readers import (
    api_keys,
    host_name,
    log_destinations,
    names,
    networks,
    one_of,
    some_of,
    span,
    text,
    truth,
    truth_or_auto,
    whole,
    whole_or,
    words_or_all,
)
from onbeat.settings.schemes import STORES, TRANSPORTS, named_urls, url_of

MOMENT: Final = timedelta(milliseconds=10)
NOTHING: Final = timedelta()
DAY: Final = timedelta(days=1)


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """`auto` is `console` on a terminal and `logfmt` elsewhere."""

    AUTO = "auto"
    CONSOLE = "console"
    LOGFMT = "logfmt"
    JSON = "json"


class ApiSettings(msgspec.Struct, frozen=True, kw_only=True):
    host: Annotated[str, Key("address that the API listens on", host_name, flag="--host")] = (
        "127.0.0.1"
    )
    port: Annotated[int, Key("port; 0 takes a free one", whole(0, 65_535), flag="--port")] = 8080
    keys: Annotated[
        tuple[str, ...],
        Key("API keys that are let in; without any, everyone is", api_keys, flag=None, secret=True),
    ] = ()
    insecure: Annotated[
        bool, Key("listen beyond loopback although no key is set", truth, flag="--insecure")
    ] = False
    disk_free_min: Annotated[
        int,
        Key("percent of an SQLite store's disk, below which no new work is taken", whole(0, 99)),
    ] = DISK_FREE_PERCENT_MIN

    def __repr__(self) -> str:
        keys = f"{len(self.keys)} keys"
        shown = (self.host, self.port, keys, self.insecure, self.disk_free_min)
        return f"ApiSettings({', '.join(map(repr, shown))})"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the API. A name other than `localhost` may not be."""
        name = self.host.rstrip(".").lower()
        try:
            return ipaddress.ip_address(name).is_loopback
        except ValueError:
            return name == "localhost"


class PlannerSettings(msgspec.Struct, frozen=True, kw_only=True):
    interval: Annotated[timedelta, Key("how often schedules are scanned", span(MOMENT, DAY))] = (
        timedelta(seconds=20)
    )
    horizon: Annotated[timedelta, Key("how far ahead jobs are made", span(NOTHING, 31 * DAY))] = (
        timedelta(minutes=10)
    )


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    concurrency: Annotated[
        int, Key("jobs that run at once", whole(1, 100_000), flag="--concurrency")
    ] = 100
    processes: Annotated[
        int, Key("processes that run jobs, this one included", whole(1, 256), flag="--processes")
    ] = 1
    queues: Annotated[
        tuple[str, ...] | None,
        Key("queues that are served", words_or_all, flag="--queues", unset="all"),
    ] = None
    prefetch: Annotated[
        int | None,
        Key(
            "jobs claimed ahead, those that run included; `auto`: as many as run at once",
            whole_or("auto", 1, 1_000_000),
            flag="--prefetch",
            unset="auto",
        ),
    ] = None
    lease: Annotated[
        timedelta,
        Key(
            "a job whose worker has not been heard of for this long is taken back",
            span(timedelta(seconds=1), DAY),
        ),
    ] = timedelta(seconds=15)
    drain_timeout: Annotated[
        timedelta,
        Key(
            "how long running jobs may go on after the signal to stop",
            span(NOTHING, DAY),
            flag="--drain-timeout",
        ),
    ] = timedelta(seconds=30)

    @property
    def prefetched(self) -> int:
        """Jobs that a worker may hold at once; `auto` is as many as it can run."""
        return self.prefetch or self.concurrency


class RetrySettings(msgspec.Struct, frozen=True, kw_only=True):
    """For jobs that say nothing of their own."""

    attempts_max: Annotated[
        int, Key("tries in all, the first included", whole(1, ATTEMPTS_MAX))
    ] = 3
    backoff: Annotated[Backoff, Key("how waits between tries grow", one_of(Backoff))] = (
        Backoff.EXPONENTIAL
    )
    delay: Annotated[timedelta, Key("wait after the first failure", span(NOTHING, SPAN_MAX))] = (
        timedelta(seconds=1)
    )
    delay_max: Annotated[timedelta, Key("longest wait between tries", span(NOTHING, SPAN_MAX))] = (
        timedelta(hours=1)
    )
    jitter: Annotated[bool, Key("wait a random part of the delay", truth)] = True

    @property
    def policy(self) -> RetryPolicy:
        return RetryPolicy(
            attempts_max=self.attempts_max,
            backoff=self.backoff,
            delay=self.delay,
            delay_max=self.delay_max,
            jitter=self.jitter,
        )


class RemoteSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Workers in other languages, which take their jobs from the transport's queues."""

    tasks: Annotated[
        tuple[str, ...],
        Key("tasks that workers in other languages run", names),
    ] = ()
    lease: Annotated[
        timedelta,
        Key(
            "a job sent to one is taken back unless its result or a renewal comes in time",
            span(timedelta(seconds=1), DAY),
        ),
    ] = timedelta(minutes=2)


class HttpSettings(msgspec.Struct, frozen=True, kw_only=True):
    timeout: Annotated[
        timedelta, Key("total time of a callback that sets none", span(MOMENT, DAY))
    ] = timedelta(seconds=30)
    allow_private: Annotated[
        bool | None,
        Key(
            "callbacks to private and loopback addresses; `auto`: while `api.host` is loopback",
            truth_or_auto,
            unset="auto",
        ),
    ] = None
    allow: Annotated[
        tuple[str, ...], Key("hosts and networks (CIDR) that callbacks may always reach", networks)
    ] = ()


class PruneSettings(msgspec.Struct, frozen=True, kw_only=True):
    after: Annotated[
        timedelta, Key("finished jobs older than this are deleted", span(NOTHING, SPAN_MAX))
    ] = timedelta(days=7)
    failed_after: Annotated[
        timedelta, Key("failed jobs older than this are deleted", span(NOTHING, SPAN_MAX))
    ] = timedelta(days=30)


class LogSettings(msgspec.Struct, frozen=True, kw_only=True):
    level: Annotated[LogLevel, Key("least level that is logged", one_of(LogLevel))] = LogLevel.INFO
    format: Annotated[
        LogFormat,
        Key("form of the lines; `auto`: console on a terminal, else logfmt", one_of(LogFormat)),
    ] = LogFormat.AUTO
    destinations: Annotated[
        tuple[str, ...], Key("where lines go: `stdout`, `file:PATH`", log_destinations)
    ] = ("stdout",)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that can be set. `Settings()` is the defaults; `load` reads the rest."""

    store: Annotated[str, Key("where schedules and jobs are kept", url_of(STORES))] = (
        "sqlite:///onbeat.db"
    )
    transport: Annotated[
        str,
        Key(
            "what carries claimed jobs to workers: a broker, or `memory://` for none",
            url_of(TRANSPORTS),
        ),
    ] = "memory://"
    connections: Annotated[
        dict[str, str],
        Key(
            "brokers that messages may be published to: a name and a URL for each, as a group in "
            "the file, or as `NAME=URL NAME=URL`",
            named_urls,
            flag=None,
            secret=True,
        ),
    ] = {}
    roles: Annotated[
        tuple[Role, ...], Key("what this process does: " + ", ".join(Role), some_of(Role))
    ] = tuple(Role)
    app: Annotated[str | None, Key("`FILE.py` or `MODULE:NAME` with the Onbeat to run", text)] = (
        None
    )
    api: ApiSettings = ApiSettings()
    planner: PlannerSettings = PlannerSettings()
    worker: WorkerSettings = WorkerSettings()
    retry: RetrySettings = RetrySettings()
    remote: RemoteSettings = RemoteSettings()
    http: HttpSettings = HttpSettings()
    prune: PruneSettings = PruneSettings()
    log: LogSettings = LogSettings()

    @property
    def allows_private(self) -> bool:
        """What `http.allow_private` comes to."""
        allowed = self.http.allow_private
        return self.api.is_loopback if allowed is None else allowed

    @property
    def secrets(self) -> tuple[str, ...]:
        """Every value that no log may show."""
        urls = (self.store, self.transport, *self.connections.values())
        passwords = (urlsplit(url).password for url in urls)
        return (*self.api.keys, *(password for password in passwords if password))
