"""The options of one `Onbeat`."""

from datetime import timedelta
from typing import Final

import msgspec

from onbeat.engine.options import RuntimeOptions
from onbeat.model.retry import RetryPolicy
from onbeat.targets.http_options import HttpOptions

IN_PROCESS: Final = "memory://"


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Options of one Onbeat, without its store and its tasks.

    `transport` carries claimed jobs to workers. `connections` are brokers that messages may go to,
    by name. `remote_tasks` are run by workers in other languages, under leases of `remote_lease`.
    `encryption_keys`, each as `ID:BASE64`, encrypt credentials and marked arguments at rest: the
    first encrypts, all decrypt. With `sidecar` a process beside the worker sends its heartbeats
    while its interpreter is held.
    """

    runtime: RuntimeOptions = RuntimeOptions()
    retry: RetryPolicy = RetryPolicy()
    http: HttpOptions = HttpOptions()
    drain_timeout: timedelta = timedelta(seconds=30)
    transport: str = IN_PROCESS
    connections: dict[str, str] = {}
    remote_tasks: frozenset[str] = frozenset()
    remote_lease: timedelta = timedelta(minutes=2)
    sidecar: bool = True
    encryption_keys: tuple[str, ...] = ()
