"""The settings of one process: frozen, read once, each with its description."""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Final, Self
from urllib.parse import urlsplit

import msgspec

from onbeat.model.keep_rule import KeepRule
from onbeat.model.limits import (
    ATTEMPTS_MAX,
    CONNECTIONS_MAX,
    CONNECTIONS_MIN,
    DISK_FREE_PERCENT_MIN,
    LOST_MAX,
    LOST_MAX_LARGEST,
    SPAN_MAX,
)
from onbeat.model.remote_task import RemoteFence, RemoteTask
from onbeat.model.retry import Backoff, RetryPolicy
from onbeat.model.role import Role
from onbeat.rules.access import clear_key
from onbeat.rules.ip_policy import is_this_machine
from onbeat.settings.cells import is_map, passwords_at
from onbeat.settings.logger_levels import levels_by_logger
from onbeat.settings.parsers import (
    api_keys,
    base_url,
    encryption_keys,
    host_name,
    host_names,
    http_url,
    keep_rules,
    log_destinations,
    name,
    networks,
    one_of,
    programs,
    queue_names_or_all,
    remote_tasks,
    some_of,
    span,
    text,
    truth,
    truth_or_auto,
    whole,
    whole_or,
)
from onbeat.settings.setting import SettingInfo
from onbeat.settings.url_schemes import STORES, TRANSPORTS, named_channels, named_urls, url_of

MOMENT: Final = timedelta(milliseconds=10)
NOTHING: Final = timedelta()
DAY: Final = timedelta(days=1)


RENAMED_ROLES: Final = {"supervisor": "maintenance"}


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
    host: Annotated[
        str, SettingInfo("address that the API listens on", host_name, flag="--host")
    ] = "127.0.0.1"
    port: Annotated[
        int, SettingInfo("port; 0 takes a free one", whole(0, 65_535), flag="--port")
    ] = 8080
    keys: Annotated[
        tuple[str, ...],
        SettingInfo(
            "API keys that are let in, as `KEY` or `NAME:SCOPE+SCOPE:QUEUE,QUEUE=KEY`; without "
            "any, and without keys in the store, everyone is",
            api_keys,
            flag=None,
            secret=True,
        ),
    ] = ()
    insecure: Annotated[
        bool, SettingInfo("listen beyond loopback although no key is set", truth, flag="--insecure")
    ] = False
    hosts: Annotated[
        tuple[str, ...],
        SettingInfo(
            "host names that the API may be called by, beside `localhost` and addresses; without "
            "any, requests with a key may name any host",
            host_names,
        ),
    ] = ()
    public_url: Annotated[
        str | None,
        SettingInfo(
            "address of this service as receivers of callbacks reach it, to which they may report "
            "later; without one, they have to answer at once",
            base_url,
            unset="none",
        ),
    ] = None
    connections_max: Annotated[
        int | None,
        SettingInfo(
            "connections that may be open; `auto`: what the limit of open files leaves, at most "
            f"{CONNECTIONS_MAX}",
            whole_or("auto", CONNECTIONS_MIN, 1_000_000),
            unset="auto",
        ),
    ] = None
    disk_free_min: Annotated[
        int,
        SettingInfo(
            "percent of an SQLite store's disk, below which no new work is taken", whole(0, 99)
        ),
    ] = DISK_FREE_PERCENT_MIN

    def __repr__(self) -> str:
        keys = f"{len(self.keys)} keys"
        shown = (
            self.host,
            self.port,
            keys,
            self.insecure,
            self.hosts,
            self.connections_max,
            self.disk_free_min,
        )
        return f"ApiSettings({', '.join(map(repr, shown))})"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the API."""
        return is_this_machine(self.host)


class PlannerSettings(msgspec.Struct, frozen=True, kw_only=True):
    interval: Annotated[
        timedelta, SettingInfo("how often schedules are scanned", span(MOMENT, DAY))
    ] = timedelta(seconds=20)
    horizon: Annotated[
        timedelta, SettingInfo("how far ahead jobs are made", span(NOTHING, 31 * DAY))
    ] = timedelta(minutes=10)


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    concurrency: Annotated[
        int, SettingInfo("jobs that run at once", whole(1, 100_000), flag="--concurrency")
    ] = 100
    processes: Annotated[
        int,
        SettingInfo(
            "processes that run jobs, this one included", whole(1, 256), flag="--processes"
        ),
    ] = 1
    queues: Annotated[
        tuple[str, ...] | None,
        SettingInfo("queues that are served", queue_names_or_all, flag="--queues", unset="all"),
    ] = None
    prefetch: Annotated[
        int | None,
        SettingInfo(
            "jobs claimed before a slot is free; `auto`: as many as run at once, or as many as end "
            "in 0.1 s, up to 3,000",
            whole_or("auto", 1, 1_000_000),
            flag="--prefetch",
            unset="auto",
        ),
    ] = None
    lease: Annotated[
        timedelta,
        SettingInfo(
            "a job whose worker sent no heartbeat for this long is rescued",
            span(timedelta(seconds=1), DAY),
        ),
    ] = timedelta(seconds=15)
    sidecar: Annotated[
        bool,
        SettingInfo(
            "a small process beside each worker sends its heartbeats while one call holds its "
            "interpreter",
            truth,
        ),
    ] = True
    drain_timeout: Annotated[
        timedelta,
        SettingInfo(
            "how long running jobs may go on after the signal to stop",
            span(NOTHING, DAY),
            flag="--drain-timeout",
        ),
    ] = timedelta(seconds=30)


class RetrySettings(msgspec.Struct, frozen=True, kw_only=True):
    """For jobs without a retry policy of their own."""

    attempts_max: Annotated[
        int, SettingInfo("tries in all, the first included", whole(1, ATTEMPTS_MAX))
    ] = 3
    backoff: Annotated[Backoff, SettingInfo("how waits between tries grow", one_of(Backoff))] = (
        Backoff.EXPONENTIAL
    )
    delay: Annotated[
        timedelta, SettingInfo("wait after the first failure", span(NOTHING, SPAN_MAX))
    ] = timedelta(seconds=1)
    delay_max: Annotated[
        timedelta, SettingInfo("longest wait between tries", span(NOTHING, SPAN_MAX))
    ] = timedelta(hours=1)
    jitter: Annotated[bool, SettingInfo("wait a random part of the delay", truth)] = True
    lost_max: Annotated[
        int,
        SettingInfo(
            "workers that may die under a job before it is given up as poison",
            whole(1, LOST_MAX_LARGEST),
        ),
    ] = LOST_MAX

    @property
    def policy(self) -> RetryPolicy:
        return RetryPolicy(
            attempts_max=self.attempts_max,
            backoff=self.backoff,
            delay=self.delay,
            delay_max=self.delay_max,
            jitter=self.jitter,
            lost_max=self.lost_max,
        )


class RemoteSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Workers in other languages, which take their jobs from the transport's queues."""

    tasks: Annotated[
        tuple[RemoteTask, ...],
        SettingInfo(
            "tasks that workers in other languages run; in YAML also NAME: {requires, key, "
            "unique_for}",
            remote_tasks,
        ),
    ] = ()
    lease: Annotated[
        timedelta,
        SettingInfo(
            "a job sent to one is taken back unless its result or a renewal comes in time",
            span(timedelta(seconds=1), DAY),
        ),
    ] = timedelta(minutes=2)
    fence: Annotated[
        RemoteFence,
        SettingInfo(
            "what their results must have: `token`; or `attempt`, a number that others can guess, "
            "for workers that send no token",
            one_of(RemoteFence),
        ),
    ] = RemoteFence.TOKEN


class HttpSettings(msgspec.Struct, frozen=True, kw_only=True):
    timeout: Annotated[
        timedelta, SettingInfo("total time of a callback that sets none", span(MOMENT, DAY))
    ] = timedelta(seconds=30)
    allow_private: Annotated[
        bool | None,
        SettingInfo(
            "callbacks to private and loopback addresses; `auto`: while `api.host` is loopback",
            truth_or_auto,
            unset="auto",
        ),
    ] = None
    allow: Annotated[
        tuple[str, ...],
        SettingInfo("hosts and networks (CIDR) that callbacks may always reach", networks),
    ] = ()


class CommandsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Programs that jobs may run on the machine of this worker."""

    allow: Annotated[
        tuple[str, ...],
        SettingInfo(
            "absolute paths of programs that this worker runs for jobs, with any arguments; "
            "without any it runs none",
            programs,
        ),
    ] = ()


class PruneSettings(msgspec.Struct, frozen=True, kw_only=True):
    after: Annotated[
        timedelta,
        SettingInfo("jobs that ended longer ago than this are deleted", span(NOTHING, SPAN_MAX)),
    ] = timedelta(days=7)
    failed_after: Annotated[
        timedelta,
        SettingInfo("jobs that failed longer ago than this are deleted", span(NOTHING, SPAN_MAX)),
    ] = timedelta(days=30)
    rules: Annotated[
        tuple[KeepRule, ...],
        SettingInfo(
            "other spans for jobs of a `queue` and with a `state`, the first rule that a job meets "
            "counts: `queue=bulk state=succeeded after=1h, state=failed after=90d`",
            keep_rules,
        ),
    ] = ()
    audit_after: Annotated[
        timedelta, SettingInfo("audit records older than this are deleted", span(NOTHING, SPAN_MAX))
    ] = timedelta(days=365)
    keys_after: Annotated[
        timedelta,
        SettingInfo(
            "idempotency keys older than this are deleted, once their jobs have ended",
            span(MOMENT, SPAN_MAX),
        ),
    ] = timedelta(days=1)
    events_after: Annotated[
        timedelta,
        SettingInfo(
            "events older than this are deleted, once their jobs are", span(NOTHING, SPAN_MAX)
        ),
    ] = timedelta(days=7)


class SecretsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Encryption at rest of credentials and of marked arguments."""

    keys: Annotated[
        tuple[str, ...],
        SettingInfo(
            "keys that encrypt credentials in the store, each `ID:KEY` with 32 bytes in base64; "
            "the first encrypts, all decrypt",
            encryption_keys,
            flag=None,
            secret=True,
        ),
    ] = ()

    def __repr__(self) -> str:
        return f"SecretsSettings({len(self.keys)} keys)"


class LogSettings(msgspec.Struct, frozen=True, kw_only=True):
    level: Annotated[LogLevel, SettingInfo("least level that is logged", one_of(LogLevel))] = (
        LogLevel.INFO
    )
    format: Annotated[
        LogFormat,
        SettingInfo(
            "form of the lines; `auto`: console on a terminal, else logfmt", one_of(LogFormat)
        ),
    ] = LogFormat.AUTO
    destinations: Annotated[
        tuple[str, ...],
        SettingInfo(
            "where lines go: `stdout`, `file:PATH`; as JSON `tcp://HOST:PORT`, `cloudwatch:GROUP`",
            log_destinations,
        ),
    ] = ("stdout",)
    levels: Annotated[
        dict[str, LogLevel],
        SettingInfo(
            "least level of single loggers and of what is below them, as a group in the file, or "
            "as `NAME=LEVEL NAME=LEVEL`; the flag takes one and may be repeated",
            levels_by_logger(one_of(LogLevel)),
            flag="--log-level",
        ),
    ] = {}
    jobs: Annotated[
        bool | None,
        SettingInfo(
            "a line at level info for the start and the success of each attempt, which are "
            "otherwise logged at debug; `auto`: where lines go to a terminal",
            truth_or_auto,
            unset="auto",
        ),
    ] = None
    banner: Annotated[
        bool,
        SettingInfo(
            "at the start, what runs here and fires next; on a terminal alone",
            truth,
            flag="--banner",
        ),
    ] = True


class MetricsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """A port with `/metrics`, `/healthz` and `/readyz` alone, for a process of any role."""

    port: Annotated[
        int | None,
        SettingInfo(
            "port with the metrics and the health of this process, without a key; 0 takes a free "
            "one, and worker process N of `worker.processes` takes the Nth port after it",
            whole_or("none", 0, 65_535),
            flag=None,
            unset="none",
        ),
    ] = None
    host: Annotated[str, SettingInfo("address that this port listens on", host_name, flag=None)] = (
        "127.0.0.1"
    )


class LogsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Log lines of handlers, kept with their jobs."""

    keep: Annotated[
        bool, SettingInfo("lines that handlers log are kept with their jobs", truth)
    ] = True
    level: Annotated[
        LogLevel, SettingInfo("least level of these lines that is kept", one_of(LogLevel))
    ] = LogLevel.INFO


class WatchdogSettings(msgspec.Struct, frozen=True, kw_only=True):
    """A service outside that raises the alarm when it hears nothing."""

    url: Annotated[
        str | None,
        SettingInfo(
            "address that a process with the role `maintenance` calls by GET while all is well; "
            "what is behind it should raise an alarm when no call comes",
            http_url,
            flag=None,
            secret=True,
        ),
    ] = None
    interval: Annotated[
        timedelta, SettingInfo("time between two calls", span(timedelta(seconds=1), DAY))
    ] = timedelta(minutes=1)

    def __repr__(self) -> str:
        return f"WatchdogSettings(url={'set' if self.url else None}, interval={self.interval})"


class OtelSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Traces and metrics by OpenTelemetry, whose own variables say where they go."""

    enabled: Annotated[
        bool | None,
        SettingInfo(
            "traces and metrics go to a collector by OTLP; `auto`: where the extra `otel` is "
            "installed and OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_TRACES_EXPORTER is set",
            truth_or_auto,
            unset="auto",
        ),
    ] = None


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All settings. `Settings()` has the defaults; `load` reads the configuration."""

    store: Annotated[str, SettingInfo("where schedules and jobs are kept", url_of(STORES))] = (
        "sqlite:///onbeat.db"
    )
    transport: Annotated[
        str,
        SettingInfo(
            "what carries claimed jobs to workers: a broker, or `memory://` for none",
            url_of(TRANSPORTS),
        ),
    ] = "memory://"
    connections: Annotated[
        dict[str, str],
        SettingInfo(
            "brokers that messages may be published to: a name and a URL for each, as a group in "
            "the file, or as `NAME=URL NAME=URL`",
            named_urls,
            flag=None,
            secret=True,
        ),
    ] = {}
    channels: Annotated[
        dict[str, str],
        SettingInfo(
            "ways to people that notices may take: a name and a URL for each, as a group in the "
            "file, or as `NAME=URL NAME=URL`",
            named_channels,
            flag=None,
            secret=True,
        ),
    ] = {}
    templates: Annotated[str | None, SettingInfo("folder with the templates of notices", text)] = (
        None
    )
    roles: Annotated[
        tuple[Role, ...],
        SettingInfo("what this process does: " + ", ".join(Role), some_of(Role, RENAMED_ROLES)),
    ] = tuple(Role)
    app: Annotated[
        str | None, SettingInfo("`FILE.py` or `MODULE:NAME` with the Onbeat to run", text)
    ] = None
    owner: Annotated[
        str | None,
        SettingInfo(
            "name of the program among those with the same store; schedules that it declared "
            "before and no longer declares are paused at its start; without one, "
            "`onbeat up PROGRAM` has the machine and the file",
            name,
        ),
    ] = None
    release: Annotated[
        str | None,
        SettingInfo(
            "version of the program: numbers in it count by their size; a start of an older one "
            "changes no declared schedule",
            name,
        ),
    ] = None
    api: ApiSettings = ApiSettings()
    planner: PlannerSettings = PlannerSettings()
    worker: WorkerSettings = WorkerSettings()
    retry: RetrySettings = RetrySettings()
    remote: RemoteSettings = RemoteSettings()
    http: HttpSettings = HttpSettings()
    commands: CommandsSettings = CommandsSettings()
    prune: PruneSettings = PruneSettings()
    secrets: SecretsSettings = SecretsSettings()
    log: LogSettings = LogSettings()
    logs: LogsSettings = LogsSettings()
    watchdog: WatchdogSettings = WatchdogSettings()
    metrics: MetricsSettings = MetricsSettings()
    otel: OtelSettings = OtelSettings()
    store_is_named: bool = False
    """Whether the configuration names `store`. It is no setting itself."""
    origins: dict[str, str] = {}
    """Where the settings that are not defaults were set. It is no setting itself."""

    def with_store_of_program(self, url: str) -> Self:
        """The same with the store of the program at `url`, unless a store is named here."""
        if self.store_is_named or self.store != Settings().store:
            return self
        return msgspec.structs.replace(self, store=url)

    @property
    def allows_private(self) -> bool:
        """The effective value of `http.allow_private`."""
        allowed = self.http.allow_private
        return self.api.is_loopback if allowed is None else allowed

    @property
    def secret_values(self) -> tuple[str, ...]:
        """Every value that must not appear in a log."""
        cells = passwords_at(self.store) if is_map(self.store) else []
        urls = (self.store, self.transport, *self.connections.values(), *self.channels.values())
        passwords = (urlsplit(url).password for url in urls)
        keys = (clear_key(text) for text in self.api.keys)
        encryption = (text.partition(":")[2] for text in self.secrets.keys)
        return (
            *filter(None, keys),
            *(password for password in passwords if password),
            *cells,
            *encryption,
            *filter(None, [self.watchdog.url]),
        )
