"""Builds the runners and the loops of one `Onbeat`, which open and close together."""

import contextlib
import logging
from base64 import b32encode
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Final, cast

import msgspec

from onbeat.app.backend import Backend
from onbeat.app.channels import notice_runner
from onbeat.app.handler_context import HandlerContext
from onbeat.app.hooks import FailureTelemetry, run_start_hooks, run_stop_hooks
from onbeat.app.options import IN_PROCESS
from onbeat.app.sidecar import sidecar_for
from onbeat.app.stores import SQLITE, check_front, open_store, sessions_of
from onbeat.app.system import KernelLiveness, identity, resident_bytes
from onbeat.app.tracing import serve_traced
from onbeat.engine.broker.dead_letters import DeadLetterPublisher
from onbeat.engine.broker.remote import RemoteTasks
from onbeat.engine.broker.setup import BrokerSetup
from onbeat.engine.dependencies import Dependencies
from onbeat.engine.job_log import JobLog
from onbeat.engine.outages import OutageReporter
from onbeat.engine.runtime import Runtime
from onbeat.model.errors import Misconfigured
from onbeat.model.role import Role
from onbeat.model.target import (
    CommandTarget,
    HandlerTarget,
    HttpTarget,
    MessageTarget,
    NotifyTarget,
    Target,
    command_lane,
    message_lane,
    notify_lane,
)
from onbeat.operations.alerts import concerns_now
from onbeat.operations.context import OperationContext
from onbeat.operations.reports import report_address
from onbeat.ports.sidecar import NO_SIDECAR, Sidecar
from onbeat.ports.target import ReportAddress, TargetRunner
from onbeat.ports.telemetry import ReadCounters, Telemetry
from onbeat.ports.transport import Broker
from onbeat.rules.outages import OnOutage
from onbeat.targets.breaker import Breakers
from onbeat.targets.command.runner import CommandRunner
from onbeat.targets.decryption import DecryptingRunner
from onbeat.targets.handler_log import INSTALLATION
from onbeat.targets.lazy import LazyRunner
from onbeat.targets.message import MessageRunner
from onbeat.targets.runner import HandlerRunner
from onbeat.targets.subprocess import child
from onbeat.targets.traced_runner import TracedRunner
from onbeat.telemetry.composite import CompositeTelemetry
from onbeat.telemetry.kept_lines import cleaner
from onbeat.telemetry.log_events import LogEvents

if TYPE_CHECKING:
    from onbeat.app.health import Health

log = logging.getLogger("onbeat.service")

LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
SERVERS: Final = frozenset({"postgresql", "postgres", "mysql", "mariadb"})


class RunningApp:
    """The loops of one Onbeat with the runners that they need, opened and closed together."""

    def __init__(self, backend: Backend) -> None:
        check_front(backend.url, backend.options.runtime.roles)
        backend.find_tracing()
        count_here(backend)
        self.backend = backend
        self.probe = contextlib.AsyncExitStack()
        self.health: Health | None = None
        self.hooks = backend.registry.hooks
        self.telemetry = FailureTelemetry(backend.telemetry, self.hooks)
        self.drain_timeout = backend.options.drain_timeout
        self.runs_jobs = Role.WORKER in backend.options.runtime.roles
        self.outages = OutageReporter(backend.store, backend.clock)
        self.log, self.is_attached = job_log_of(backend), False
        self.handlers = HandlerRunner(
            backend.registry,
            HandlerContext(backend),
            child.serve if backend.tracing is None else serve_traced,
        )
        self.callbacks = callback_runner(backend, self.outages.report)
        breakers = Breakers(backend.clock, backend.telemetry, self.outages.report)
        self.messages = MessageRunner(backend.options.connections, broker_for, breakers)
        self.commands = CommandRunner(backend.clock, backend.options.commands)
        self.notices = notice_runner(backend, self.callbacks, self.outages.report)
        self.broker_setup = broker_setup_of(backend)
        self.sidecar = sidecar_of(backend)
        self.runtime = Runtime(
            dependencies_of(backend, self), backend.options.runtime, self.broker_setup
        )
        backend.check_start = self.runtime.worker.start_check.judge_sent

    @property
    def dead_letters(self) -> DeadLetterPublisher | None:
        """Publishes new dead letters, where there is a broker."""
        return None if self.broker_setup is None else self.broker_setup.dead_letters

    async def start(self) -> None:
        """Start all loops, and open the port of the metrics. Raises `Misconfigured` for that."""
        await self.open()
        await self.open_probe()
        await self.runtime.start()
        if self.health is not None:
            self.health.is_ready = True

    async def open_probe(self) -> None:
        options, telemetry = self.backend.options, self.backend.telemetry
        if options.metrics_port is None or not isinstance(telemetry, CompositeTelemetry):
            return
        from onbeat.app.health import Health  # noqa: PLC0415  as below
        from onbeat.app.probe import serve_probe  # noqa: PLC0415  few programs have the extra

        self.health = Health(self.backend, telemetry)
        probe = serve_probe(options.metrics_host, options.metrics_port, self.health)
        port = await self.probe.enter_async_context(probe)
        log.info("metrics", extra={"address": f"{options.metrics_host}:{port}"})

    async def open(self) -> None:
        """Open the runners, without starting any loop. Raises what a hook of the start raises."""
        if self.log.level is not None and not self.is_attached:
            INSTALLATION.attach()
            self.is_attached = True
        await self.handlers.open()
        await self.callbacks.open()
        if self.runs_jobs:
            await run_start_hooks(self.hooks)

    async def close(self) -> None:
        await self.telemetry.finish()
        if self.runs_jobs:
            await run_stop_hooks(self.hooks)
        await self.messages.close()
        await self.notices.close()
        await self.commands.close()
        await self.callbacks.close()
        await self.handlers.close()
        if self.is_attached:
            INSTALLATION.detach()
            self.is_attached = False

    async def stop(self) -> int:
        """Drain, then end everything. Returns how many attempts were stopped early."""
        if self.health is not None:
            self.health.is_ready = False
        try:
            return await self.runtime.drain(self.drain_timeout)
        finally:  # a program whose loops go on would never end
            await self.abandon()

    async def abandon(self) -> None:
        """End everything at once; running jobs count as lost."""
        await self.runtime.stop()
        await self.probe.aclose()
        await self.close()


def count_here(backend: Backend) -> None:
    """Count what happens where the port of the metrics is to show it."""
    options, journal = backend.options, backend.telemetry
    if options.metrics_port is None or isinstance(journal, CompositeTelemetry):
        return
    if not isinstance(journal, LogEvents):
        raise Misconfigured(
            "metrics_port: it shows what Onbeat's own telemetry counts; give no other"
        )
    backend.telemetry = CompositeTelemetry(
        journal=journal, live=backend.live, now=backend.clock.now
    )


def callback_runner(backend: Backend, on_outage: OnOutage | None = None) -> TargetRunner:
    return LazyRunner(lambda: http_runner(backend, on_outage))


def http_runner(backend: Backend, on_outage: OnOutage | None) -> TargetRunner:
    from onbeat.targets.http import HttpRunner  # noqa: PLC0415  slow to load

    return HttpRunner(
        backend.clock,
        backend.options.http,
        telemetry=backend.telemetry,
        on_outage=on_outage,
        tracing=backend.tracing,
        report_address=report_address_of(backend),
    )


def report_address_of(backend: Backend) -> ReportAddress | None:
    """None where nobody has named the address of the service."""
    base = backend.options.public_url
    return None if base is None else partial(report_address, backend.store, base)


def dependencies_of(backend: Backend, running: RunningApp) -> Dependencies:
    hooks = backend.registry.hooks
    runners: dict[type[Target], TargetRunner] = {
        HandlerTarget: DecryptingRunner(running.handlers, backend.cipher),
        MessageTarget: DecryptingRunner(running.messages, backend.cipher),
        NotifyTarget: running.notices,
        CommandTarget: DecryptingRunner(running.commands, backend.cipher),
        HttpTarget: DecryptingRunner(running.callbacks, backend.cipher),
    }
    others = frozenset({"@http"}) | {message_lane(name) for name in running.messages.urls}
    others |= frozenset(map(notify_lane, running.notices.records))
    others |= frozenset(map(command_lane, running.commands.allowed))
    if (tracing := backend.tracing) is not None:
        runners = {
            kind: TracedRunner(runner, tracing, backend.clock) for kind, runner in runners.items()
        }
    return Dependencies(
        store=backend.store,
        clock=backend.clock,
        randomness=backend.randomness,
        liveness=KernelLiveness(),
        telemetry=cast("Telemetry", running.telemetry) if hooks.failed else backend.telemetry,
        runners=runners,
        lanes=lambda: backend.registry.tasks() | others,
        identity=identity(
            short_name(backend.randomness.ids(1)[0]), backend.clock.now(), backend.owner.release
        ),
        compile=backend.registry.compile,
        sidecar=running.sidecar,
        sessions=sessions_of(backend.store),
        expressions=backend.expressions,
        outages=running.outages,
        look=lambda: concerns_now(with_disk(backend)),
        read_counters=counters_of(backend),
        faults=backend.faults,
        log=running.log,
        live=backend.live,
        memory=resident_bytes,
    )


def job_log_of(backend: Backend) -> JobLog:
    options = backend.options
    level = None if options.log_level is None else LEVELS[options.log_level]
    return JobLog(level, cleaner((*options.secrets, *options.encryption_keys)))


def with_disk(backend: Backend) -> OperationContext:
    return msgspec.structs.replace(backend.context, check_capacity=backend.check_disk)


def counters_of(backend: Backend) -> ReadCounters | None:
    """None where the process does not count, as a program with loops of its own."""
    telemetry = backend.telemetry
    return telemetry.counters.take_state if isinstance(telemetry, CompositeTelemetry) else None


def sidecar_of(backend: Backend) -> Sidecar:
    url = shareable_url(backend)
    if url is None or not backend.options.sidecar:
        return NO_SIDECAR
    return sidecar_for(url, backend.clock, backend.telemetry)


def shareable_url(backend: Backend) -> str | None:
    """A URL by which another process can open the same store; None if there is none."""
    shown = backend.store.url
    if shown.startswith(SQLITE):
        return shown  # absolute path: the working directory may have changed
    is_named = backend.url.partition("://")[0] in SERVERS and open_store(backend.url).url == shown
    return backend.url if is_named else None


def short_name(id: str) -> str:
    """A hash of 60 bits that distinguishes worker processes.

    Short because every running job has its worker's name in its row, an index and its history.
    """
    return b32encode(sha256(id.encode()).digest()).decode().lower()[:12]


def broker_for(url: str) -> Broker:
    from onbeat.app.brokers import open_broker  # noqa: PLC0415  most programs need no broker

    return open_broker(url)


def broker_setup_of(backend: Backend) -> BrokerSetup | None:
    """The messages over the transport's broker; None where all roles share this process."""
    options = backend.options
    if options.transport == IN_PROCESS:
        return None
    from onbeat.app.brokers import build_broker_setup  # noqa: PLC0415  as above

    return build_broker_setup(
        broker_for(options.transport),
        backend.context,
        RemoteTasks(frozenset(options.remote_tasks_by_name), backend.registry.tasks),
        options.remote_lease,
    )
