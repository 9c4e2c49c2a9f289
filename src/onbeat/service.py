"""`onbeat up`: one process with its roles, from settings to a clean exit."""

import asyncio
import contextlib
import gc
import logging
import os
import socket
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from functools import cached_property
from typing import Final
from urllib.parse import urlsplit

import msgspec
import uvicorn

from onbeat.api.asgi import build_api
from onbeat.api.options import ApiOptions
from onbeat.api.stream_hub import StreamHub, streams_max
from onbeat.app.backend import Backend
from onbeat.app.client import Onbeat
from onbeat.app.configure import options_from, owner_from
from onbeat.app.connections import Connections
from onbeat.app.descriptors import connections_here
from onbeat.app.disk_guard import disk_guard_of
from onbeat.app.doctor import Doctor
from onbeat.app.health import Health
from onbeat.app.listener import Server, listen
from onbeat.app.process_supervisor import ProcessSupervisor
from onbeat.app.protocol import bounded_by
from onbeat.app.signals import SIGNALS, wait_for_either
from onbeat.app.stores import check_front, open_store
from onbeat.app.tracing import otlp_export
from onbeat.app.watchdog import Watchdog
from onbeat.dashboard.routes import dashboard_routes, missing_page
from onbeat.model.errors import Misconfigured
from onbeat.model.limits import KEEP_ALIVE_SECONDS_MAX
from onbeat.model.role import Role
from onbeat.operations.alerts import concerns_now
from onbeat.operations.context import OperationContext
from onbeat.rules.access import KEY_CHARS_ADVISED, clear_key, read_configured_keys
from onbeat.rules.verdict import Concern
from onbeat.settings import Settings
from onbeat.settings.answers import setting_answers
from onbeat.settings.records import LogSettings
from onbeat.telemetry.composite import CompositeTelemetry
from onbeat.telemetry.log import is_on_terminal
from onbeat.telemetry.log_events import LogEvents
from onbeat.wire.values import span_text

log = logging.getLogger("onbeat.service")

QUIET: Final = frozenset({"botocore.credentials", "uvicorn.error"})
"""The one tells at each start where credentials were found; what the other tells of start and stop
adds nothing to `ready` and `drained`."""

Announce = Callable[[OperationContext, str | None], Awaitable[None]]
"""Called once the service is ready, with the address of the API, if it has one."""

ACCEPTED_AT_ONCE: Final = 16  # each takes a descriptor before it can be refused
WITHIN: Final = "memory://"  # a store or transport inside this process
HAND_OVER: Final = frozenset({Role.DISPATCHER, Role.WORKER})
OF_BROKER: Final = HAND_OVER | {Role.MAINTENANCE}
REQUESTS_GRACE: Final = 5  # seconds for open requests after the drain


# Thousands of jobs in flight have many live objects; collecting these again and again cost two
# fifths of the CPU time of a callback.
GARBAGE_THRESHOLDS: Final = (50_000, 20, 100)

# A thread that waits for the interpreter gets it after this time at the latest. SQLite's writer
# waits after each statement while jobs run, and the loop while functions in threads compute.
SWITCH_SECONDS: Final = 0.0005
SWITCH_SECONDS_OF_PYTHON: Final = 0.005


async def serve(
    settings: Settings,
    app: Onbeat | None = None,
    arguments: Sequence[str] = (),
    announce: Announce | None = None,
) -> int:
    """Run until SIGTERM or SIGINT, then drain. Returns the exit code.

    `arguments` are those of the command line, for starting further processes. `announce` is called
    once it is ready. Raises `Misconfigured` for settings that cannot work, `Unavailable` when the
    store is away.
    """
    app = app or Onbeat(settings.store)
    settings = settings.with_store_of_program(app.backend.url)
    check_roles(settings)
    # Loading the program may have opened its store, which may not be the service's.
    await app.aclose()
    service = Service(settings, app, arguments, announce)
    quiet_libraries(settings.log)
    warn_of_short_keys(settings)
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    if sys.getswitchinterval() == SWITCH_SECONDS_OF_PYTHON:  # a program may have set its own
        sys.setswitchinterval(SWITCH_SECONDS)
    with handle_signals(service):
        return 0 if await service.run() else 1


def quiet_libraries(settings: LogSettings) -> None:
    """Keep loggers of libraries at warnings, unless `log.levels` names them."""
    for name in QUIET - settings.levels.keys():
        logging.getLogger(name).setLevel(logging.WARNING)


def log_events_for(settings: LogSettings) -> LogEvents:
    """With a line for each job where the settings, or the people at a terminal, want one."""
    shown = is_on_terminal(settings) if settings.jobs is None else settings.jobs
    return LogEvents(level=logging.INFO if shown else logging.DEBUG)


def warn_of_short_keys(settings: Settings) -> None:
    """On loopback short keys are accepted; `load` refuses them on other addresses."""
    keys = settings.api.keys
    for configured, text in zip(read_configured_keys(keys), keys, strict=True):
        clear = clear_key(text)
        if clear is not None and len(clear) < KEY_CHARS_ADVISED:
            log.warning(
                "short key", extra={"key": configured.name, "characters_advised": KEY_CHARS_ADVISED}
            )


def check_roles(settings: Settings) -> None:
    """Raises `Misconfigured` for roles that would start and then wait forever."""
    check_front(settings.store, settings.roles)
    if not settings.transport.startswith(WITHIN):
        if settings.store == "memory://":
            raise Misconfigured(
                "transport: store memory:// is seen by this process only; a broker needs a store "
                "that all can reach",
                "transport",
            )
        return
    together = OF_BROKER if is_broker_within(settings.transport) else HAND_OVER
    here = together & set(settings.roles)
    if here and here != together:
        raise Misconfigured(
            f"roles: {settings.transport} carries jobs from dispatcher to worker inside one process"
            f" only; with {min(here)} name {', '.join(sorted(together - here))} too",
            "roles",
        )
    if not here and settings.store == "memory://":
        raise Misconfigured(
            "roles: store memory:// is seen by this process only; name dispatcher and worker too",
            "roles",
        )


def is_broker_within(transport: str) -> bool:
    """Whether it is `memory://NAME`; without a name there is no broker."""
    return transport.startswith(WITHIN) and transport != WITHIN


class Service:
    """One process: an Onbeat, its loops, and the HTTP API when it has that role."""

    def __init__(
        self,
        settings: Settings,
        app: Onbeat,
        arguments: Sequence[str] = (),
        announce: Announce | None = None,
    ) -> None:
        self.announce = announce
        self.settings = settings = settings.with_store_of_program(app.backend.url)
        self.process_supervisor = process_supervisor_for(settings, arguments)
        self.app = app
        self.backend = apply_settings(app.backend, settings)
        self.telemetry = CompositeTelemetry(
            journal=log_events_for(settings.log),
            live=self.backend.live,
            now=self.backend.clock.now,
        )
        self.backend.telemetry = self.telemetry
        self.health = Health(self.backend, self.telemetry)
        self.export = otlp_export(settings.otel.enabled, os.environ)
        if self.export is not None:
            self.backend.tracing = self.export.tracing
        self.doctor = Doctor(settings, self.backend.store, self.backend.clock)
        self.drain_requested = asyncio.Event()
        self.stop_requested = asyncio.Event()

    async def run(self) -> bool:
        """Returns whether it drained; False when a second signal interrupted that."""
        async with contextlib.AsyncExitStack() as stack:
            listener = stack.enter_context(self.listen()) if self.has_api else None
            if self.export is not None:
                self.export.start(self.health.metrics.collect, self.health.read_figures)
                stack.push_async_callback(self.export.close)
            await self.app.start()
            stack.push_async_callback(self.app.aclose)
            self.process_supervisor.start()
            stack.push_async_callback(self.process_supervisor.stop)
            if listener is not None:
                await stack.enter_async_context(self.serve_api(listener))
            self.health.is_ready = True
            stack.enter_context(self.watched())
            if self.announce is not None:
                await self.announce(self.context(), address_of(listener))
            log.info("ready", extra=self.where(listener))
            await self.drain_requested.wait()
            self.health.is_ready = False
            return await self.drain()

    @contextlib.contextmanager
    def watched(self) -> Generator[None, None, None]:
        """Tell the watchdog of the settings, until the drain, that all is well."""
        url, interval = self.settings.watchdog.url, self.settings.watchdog.interval
        if url is None or Role.MAINTENANCE not in self.settings.roles:
            yield
            return
        task = asyncio.create_task(Watchdog(url, interval, self.what_is_wrong).run())
        yield
        task.cancel()

    async def what_is_wrong(self) -> str | None:
        """The first loop that is stuck, or the worst of what keeps work from being done.

        A job that failed is told by its alert: the scheduler is well.
        """
        checks = await self.health.readiness()
        found = [f"{name}: {result}" for name, result in checks.items() if result != "ok"]
        found += [one.text for one in await concerns_now(self.context()) if stops_work(one)]
        return found[0] if found else None

    @property
    def has_api(self) -> bool:
        return Role.API in self.settings.roles

    def listen(self) -> contextlib.AbstractContextManager[socket.socket]:
        """The API's socket. Raises `Misconfigured` when the address is not available."""
        return listen(self.settings.api.host, self.settings.api.port, "api.port")

    def where(self, listener: socket.socket | None) -> dict[str, object]:
        message: dict[str, object] = {
            "store": self.backend.store.url,
            "roles": ",".join(sorted(self.settings.roles)),
        }
        address = address_of(listener)
        return message if address is None else message | {"address": address}

    async def drain(self) -> bool:
        """Let running jobs end; returns False when a second signal interrupts this."""
        log.info("draining", extra={"timeout": span_text(self.settings.worker.drain_timeout)})
        drain = asyncio.create_task(self.stop_all())
        if not await wait_for_either(drain, asyncio.create_task(self.stop_requested.wait())):
            log.warning("stopped at once")
            return False
        log.info("drained", extra={"handed_back": drain.result()})
        return True

    async def stop_all(self) -> int:
        """Drain this process and its worker processes together; returns the result of this one."""
        stopped, _ = await asyncio.gather(self.app.stop(), self.process_supervisor.stop())
        return stopped

    @contextlib.asynccontextmanager
    async def serve_api(self, listener: socket.socket) -> AsyncGenerator[None, None]:
        """Answer HTTP requests until the block ends."""
        context = self.context()
        hub = StreamHub(context, streams_max(self.connections_max))
        api = build_api(
            context,
            self.api_options(),
            pages=lambda access: dashboard_routes(context, access),
            missing=missing_page(context),
            hub=hub,
        )
        server = Server(
            uvicorn.Config(
                api,
                log_config=None,
                access_log=False,
                lifespan="off",
                server_header=False,
                backlog=ACCEPTED_AT_ONCE,
                timeout_graceful_shutdown=REQUESTS_GRACE,
                timeout_keep_alive=KEEP_ALIVE_SECONDS_MAX,
                http=self.protocol(),
                ws="none",
            ),
            listener,
        )
        task = asyncio.create_task(server.serve(sockets=[listener]))
        await server.listens.wait()
        try:
            yield
        finally:
            # An open stream would hold the server up until its deadline.
            await hub.close()
            server.should_exit = True
            await task

    @cached_property
    def connections_max(self) -> int:
        runs_jobs = Role.WORKER in self.settings.roles
        return connections_here(
            self.settings.api.connections_max,
            self.settings.worker.concurrency if runs_jobs else 0,
        )

    def protocol(self) -> type[asyncio.Protocol]:
        counts = self.telemetry.counters.connections
        return bounded_by(Connections(self.connections_max, counts))

    def context(self) -> OperationContext:
        """A context that refuses requests while the disk is full; sends by the program pass."""
        return msgspec.structs.replace(
            self.backend.context,
            check_capacity=self.backend.check_disk,
            examine=self.doctor.checkup,
        )

    def api_options(self) -> ApiOptions:
        api = self.settings.api
        return ApiOptions(
            keys=api.keys,
            key_refused=self.telemetry.counters.key_refused,
            hosts=("localhost", api.host, *api.hosts, *public_hosts(api.public_url)),
            hosts_with_key=bool(api.hosts),
            ready=self.health.readiness,
            metrics=self.health.exposition,
        )


def address_of(listener: socket.socket | None) -> str | None:
    if listener is None:
        return None
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def public_hosts(url: str | None) -> tuple[str, ...]:
    """The host under which receivers of callbacks report."""
    return () if url is None else (urlsplit(url).hostname or "",)


def stops_work(concern: Concern) -> bool:
    return concern.level == "fail" and not concern.is_of_jobs


def process_supervisor_for(settings: Settings, arguments: Sequence[str]) -> ProcessSupervisor:
    """Raises `Misconfigured` where other processes could not reach the same jobs."""
    worker = settings.worker
    if worker.processes > 1 and settings.store.startswith(WITHIN):
        raise Misconfigured(
            "worker.processes: memory:// lives in one process; name another store",
            "worker.processes",
        )
    if worker.processes > 1 and is_broker_within(settings.transport):
        raise Misconfigured(
            f"worker.processes: {settings.transport} lives in one process; name another transport",
            "worker.processes",
        )
    return ProcessSupervisor(
        arguments,
        worker.processes - 1,
        worker.drain_timeout.total_seconds(),
        settings.metrics.port,
    )


def apply_settings(backend: Backend, settings: Settings) -> Backend:
    """The program's backend with the store and the options of the settings."""
    if settings.store != backend.url:
        backend.store, backend.url = open_store(settings.store), settings.store
    backend.options = options_from(settings)
    backend.check_disk = disk_guard_of(backend.store, settings.api.disk_free_min)
    backend.settings = setting_answers(settings)
    backend.owner = owner_from(settings, backend.owner)
    return backend


@contextlib.contextmanager
def handle_signals(service: Service) -> Generator[None, None, None]:
    """The first signal drains the service, the second stops it at once."""
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        if service.drain_requested.is_set():
            service.stop_requested.set()
        service.drain_requested.set()

    for number in SIGNALS:
        loop.add_signal_handler(number, on_signal)
    try:
        yield
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
