"""The options of one `Onbeat`."""

from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Final, Literal

import msgspec

from onbeat.app.remote_tasks import by_name
from onbeat.engine.options import RuntimeOptions
from onbeat.model.channel import Template
from onbeat.model.keep_rule import KeepRule
from onbeat.model.remote_task import RemoteTask
from onbeat.model.retry import RetryPolicy
from onbeat.model.role import Role
from onbeat.rules.kinds import check_kinds
from onbeat.targets.http_options import HttpOptions
from onbeat.wire.commands import read_programs

__all__ = [
    "IN_PROCESS",
    "HttpOptions",
    "KeepRule",
    "Options",
    "Role",
    "RuntimeOptions",
    "Template",
]

IN_PROCESS: Final = "memory://"


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Options of one Onbeat, without its store and its tasks.

    `transport` carries claimed jobs to workers. `connections` are brokers that messages may go to,
    by name; `channels` are ways to people, by name, and `templates` the texts of notices.
    `remote_tasks`, names or declarations by `remote_task`, are run by workers in other languages,
    under leases of `remote_lease`; their results need a token, or with `remote_fence` "attempt"
    only the number of the attempt.
    `encryption_keys`, each as `ID:BASE64`, encrypt credentials and marked arguments at rest: the
    first encrypts, all decrypt. With `sidecar` a process beside the worker sends its heartbeats
    while its interpreter is held. `metrics_port` opens a port with `/metrics`, `/healthz` and
    `/readyz` on `metrics_host` while the program runs jobs; it needs the extra `server`.
    `public_url` is the address of a service on the same store, to which receivers of callbacks may
    report later. `log_level` is the least level of what handlers log that is kept with their jobs,
    None for nothing; `secrets` are values that are hidden there. `commands` are the absolute paths
    of the programs that jobs may run here, none by default.
    """

    runtime: RuntimeOptions = RuntimeOptions()
    retry: RetryPolicy = RetryPolicy()
    http: HttpOptions = HttpOptions()
    drain_timeout: timedelta = timedelta(seconds=30)
    transport: str = IN_PROCESS
    connections: dict[str, str] = {}
    channels: dict[str, str] = {}
    templates: dict[str, Template] = {}
    remote_tasks: Collection[str | RemoteTask] = ()
    remote_lease: timedelta = timedelta(minutes=2)
    remote_fence: Literal["token", "attempt"] = "token"
    sidecar: bool = True
    encryption_keys: tuple[str, ...] = ()
    metrics_port: int | None = None
    metrics_host: str = "127.0.0.1"
    log_level: Literal["debug", "info", "warning", "error"] | None = "info"
    secrets: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    public_url: str | None = None

    def __post_init__(self) -> None:
        """Raises `Invalid` for an option of another kind, and for a path that is not absolute."""
        check_kinds(self)
        read_programs(self.commands, "commands")
        by_name(self.remote_tasks)

    @property
    def remote_tasks_by_name(self) -> Mapping[str, RemoteTask]:
        return by_name(self.remote_tasks)
