"""`onbeat up`: one process with its roles, from settings to a clean exit."""

import asyncio
import contextlib
import gc
import logging
import socket
from collections.abc import AsyncGenerator, Generator, Sequence
from typing import Any, Final

import msgspec
import uvicorn

from onbeat.api.asgi import build_api
from onbeat.api.connections import Connections
from onbeat.api.options import ApiOptions, Readiness
from onbeat.api.protocol import BoundedProtocol
from onbeat.app.backend import Backend
from onbeat.app.client import Onbeat
from onbeat.app.configure import options_from
from onbeat.app.descriptors import connections_here
from onbeat.app.disk_guard import disk_guard_of
from onbeat.app.process_supervisor import ProcessSupervisor
from onbeat.app.signals import SIGNALS, wait_for_either
from onbeat.app.stores import open_store
from onbeat.model.errors import Misconfigured
from onbeat.model.limits import KEEP_ALIVE_SECONDS_MAX
from onbeat.model.role import Role
from onbeat.operations.context import OperationContext
from onbeat.rules.access import KEY_CHARS_ADVISED, clear_key, read_configured_keys
from onbeat.settings import Settings
from onbeat.telemetry.composite import CompositeTelemetry
from onbeat.telemetry.metrics import CONTENT_TYPE, Metrics
from onbeat.wire.values import span_text

log = logging.getLogger("onbeat.service")

BACKLOG: Final = 2_048  # connections that the system keeps until they are accepted
ACCEPTED_AT_ONCE: Final = 16  # each takes a descriptor before it can be refused
WITHIN: Final = "memory://"  # a store or transport inside this process
HAND_OVER: Final = frozenset({Role.DISPATCHER, Role.WORKER})
OF_BROKER: Final = HAND_OVER | {Role.MAINTENANCE}
REQUESTS_GRACE: Final = 5  # seconds for open requests after the drain
LOOP_SILENT_MAX: Final = 60.0  # seconds; every loop runs far more often


# Thousands of jobs in flight have many live objects; collecting these again and again cost two
# fifths of the CPU time of a callback.
GARBAGE_THRESHOLDS: Final = (50_000, 20, 100)


async def serve(
    settings: Settings, app: Onbeat | None = None, arguments: Sequence[str] = ()
) -> int:
    """Run until SIGTERM or SIGINT, then drain. Returns the exit code.

    `arguments` are those of the command line, for starting further processes. Raises
    `Misconfigured` for settings that cannot work, `Unavailable` when the store is away.
    """
    check_roles(settings)
    app = app or Onbeat(settings.store)
    # Loading the program may have opened its store, which may not be the service's.
    await app.aclose()
    service = Service(settings, app, arguments)
    # Uvicorn's start and stop messages add nothing to `ready` and `drained`.
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    warn_of_short_keys(settings)
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    with handle_signals(service):
        return 0 if await service.run() else 1


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

    def __init__(self, settings: Settings, app: Onbeat, arguments: Sequence[str] = ()) -> None:
        self.settings = settings
        self.process_supervisor = process_supervisor_for(settings, arguments)
        self.app = app
        self.backend = apply_settings(app.backend, settings)
        self.telemetry = CompositeTelemetry()
        self.backend.telemetry = self.telemetry
        self.metrics = Metrics(self.telemetry.counters)
        self.drain_requested = asyncio.Event()
        self.stop_requested = asyncio.Event()
        self.is_ready = False

    async def run(self) -> bool:
        """Returns whether it drained; False when a second signal interrupted that."""
        async with contextlib.AsyncExitStack() as stack:
            listener = stack.enter_context(listen(self.settings)) if self.has_api else None
            await self.app.start()
            stack.push_async_callback(self.app.aclose)
            self.process_supervisor.start()
            stack.push_async_callback(self.process_supervisor.stop)
            if listener is not None:
                await stack.enter_async_context(self.serve_api(listener))
            self.is_ready = True
            log.info("ready", extra=self.where(listener))
            await self.drain_requested.wait()
            self.is_ready = False
            return await self.drain()

    @property
    def has_api(self) -> bool:
        return Role.API in self.settings.roles

    def where(self, listener: socket.socket | None) -> dict[str, object]:
        message: dict[str, object] = {
            "store": self.backend.store.url,
            "roles": ",".join(sorted(self.settings.roles)),
        }
        if listener is not None:
            host, port = listener.getsockname()[:2]
            message["address"] = (
                f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
            )
        return message

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
        server = Server(
            uvicorn.Config(
                build_api(self.context(), self.api_options()),
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
            server.should_exit = True
            await task

    def protocol(self) -> type[asyncio.Protocol]:
        """A protocol class that shares `Connections`; uvicorn makes an instance per connection."""
        runs_jobs = Role.WORKER in self.settings.roles
        limit = connections_here(
            self.settings.api.connections_max,
            self.settings.worker.concurrency if runs_jobs else 0,
        )
        connections = Connections(limit, self.telemetry.counters.connections)

        class ApiProtocol(BoundedProtocol):
            def __init__(self, *args: Any, **kwargs: Any) -> None:
                super().__init__(*args, connections=connections, **kwargs)

        return ApiProtocol

    def context(self) -> OperationContext:
        """A context that refuses requests while the disk is full; sends by the program pass."""
        room = disk_guard_of(self.backend.store, self.settings.api.disk_free_min)
        return msgspec.structs.replace(self.backend.context, check_capacity=room)

    def api_options(self) -> ApiOptions:
        api = self.settings.api
        return ApiOptions(
            keys=api.keys,
            key_refused=self.telemetry.counters.key_refused,
            hosts=("localhost", api.host, *api.hosts),
            hosts_with_key=bool(api.hosts),
            ready=self.readiness,
            metrics=self.render_metrics,
        )

    async def readiness(self) -> Readiness:
        await self.backend.store.ping()
        return {
            "store": "ok",
            "service": "ok" if self.is_ready else "starting or draining",
            **self.loops(),
        }

    def loops(self) -> dict[str, str]:
        """The state of each loop; the silence where it is too long."""
        return {
            f"{name} loop": "ok" if silence < LOOP_SILENT_MAX else f"silent for {silence:.0f} s"
            for name, silence in self.telemetry.counters.silences().items()
            if name not in RESTFUL_LOOPS
        }

    async def render_metrics(self) -> tuple[bytes, str]:
        await self.metrics.refresh(self.backend.store, self.backend.clock.now())
        return self.metrics.exposition(), CONTENT_TYPE


RESTFUL_LOOPS: Final = frozenset({"pruner", "replanner"})
"""Loops with pauses longer than `LOOP_SILENT_MAX`."""


class Server(uvicorn.Server):
    """uvicorn inside our event loop, with our signal handlers and socket."""

    def __init__(self, config: uvicorn.Config, listener: socket.socket | None = None) -> None:
        super().__init__(config)
        self.listener = listener
        self.listens = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        # The event loop also uses the backlog as the number of connections accepted at once.
        if self.listener is not None:
            self.listener.listen(BACKLOG)
        self.listens.set()


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
    return ProcessSupervisor(arguments, worker.processes - 1, worker.drain_timeout.total_seconds())


def apply_settings(backend: Backend, settings: Settings) -> Backend:
    """The program's backend with the options of the settings and, if they name one, its store.

    A program that names its own store keeps it unless the settings override it.
    """
    if settings.store not in {backend.url, Settings().store}:
        backend.store, backend.url = open_store(settings.store), settings.store
    backend.options = options_from(settings)
    return backend


@contextlib.contextmanager
def listen(settings: Settings) -> Generator[socket.socket, None, None]:
    """The API's socket. Raises `Misconfigured` when the address is not available."""
    host, port = settings.api.host, settings.api.port
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = addresses[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        raise Misconfigured(
            f"api.port: cannot listen on {host}:{port} ({error.strerror or error}); "
            "stop what listens there, or choose another with --port",
            "api.port",
        ) from error
    with listener:
        yield listener


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
