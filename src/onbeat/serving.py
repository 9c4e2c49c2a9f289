"""`onbeat up`: one process with its roles, from settings to a clean end."""

import asyncio
import contextlib
import gc
import logging
import socket
from collections.abc import AsyncGenerator, Generator, Sequence
from typing import Final

import msgspec
import uvicorn

from onbeat.api.asgi import build_api
from onbeat.api.options import ApiOptions, Readiness
from onbeat.app.client import Onbeat
from onbeat.app.composition import HttpPolicy, Options, open_store
from onbeat.app.room import room_of
from onbeat.app.running import SIGNALS, first_of
from onbeat.app.siblings import Siblings
from onbeat.engine.runtime import RuntimeOptions
from onbeat.model.errors import Misconfigured
from onbeat.model.role import Role
from onbeat.operations.operator import Operator
from onbeat.rules.addresses import allowed_from
from onbeat.settings import Settings
from onbeat.telemetry.metrics import CONTENT_TYPE, Metrics
from onbeat.telemetry.standard import Standard
from onbeat.wire.values import span_text

log = logging.getLogger("onbeat.serving")

LOOPBACK_NAMES: Final = ("127.0.0.1", "localhost", "::1")
BACKLOG: Final = 2_048
WITHIN: Final = "memory://"  # a store or transport that only this process reaches
HAND_OVER: Final = frozenset({Role.DISPATCHER, Role.WORKER})
OF_BROKER: Final = HAND_OVER | {Role.SUPERVISOR}
REQUESTS_GRACE: Final = 5  # seconds that open requests have after the work has drained
LOOP_SILENT_MAX: Final = 60.0  # seconds; every loop goes round far more often


# Records and tasks of thousands of jobs in flight are no garbage; looking through them again and
# again cost two fifths of the processor time of a callback.
GARBAGE_THRESHOLDS: Final = (50_000, 20, 100)


async def serve(
    settings: Settings, beat: Onbeat | None = None, arguments: Sequence[str] = ()
) -> int:
    """Run until SIGTERM or SIGINT, then drain. The answer is the exit code.

    `arguments` are those of the command line, for further processes to be started with.
    Raises `Misconfigured` when it cannot start as it is told to, `Unavailable` when the store is
    not there.
    """
    check_roles(settings)
    beat = beat or Onbeat(settings.store)
    # A program may have used its store while it was loaded, perhaps another one than the service's.
    await beat.close()
    service = Service(settings, beat, arguments)
    # Its "Started server process" and the like say nothing that `ready` and `drained` do not.
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    with signals_to(service):
        return 0 if await service.run() else 1


def check_roles(settings: Settings) -> None:
    """Raises `Misconfigured` for roles that would be ready, and wait for ever."""
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
    """One process: an Onbeat, its loops, and the HTTP face when it has that role."""

    def __init__(self, settings: Settings, beat: Onbeat, arguments: Sequence[str] = ()) -> None:
        self.settings = settings
        self.siblings = siblings_for(settings, arguments)
        self.beat = fitted(beat, settings)
        self.telemetry = Standard()
        self.beat.telemetry = self.telemetry
        self.metrics = Metrics(self.telemetry.counts)
        self.signalled = asyncio.Event()
        self.at_once = asyncio.Event()
        self.is_ready = False

    async def run(self) -> bool:
        """Whether it drained; False when a second signal did not wait for that."""
        async with contextlib.AsyncExitStack() as stack:
            listener = stack.enter_context(listening(self.settings)) if self.has_api else None
            await self.beat.start()
            stack.push_async_callback(self.beat.close)
            self.siblings.start()
            stack.push_async_callback(self.siblings.stop)
            if listener is not None:
                await stack.enter_async_context(self.answering(listener))
            self.is_ready = True
            log.info("ready", extra=self.where(listener))
            await self.signalled.wait()
            self.is_ready = False
            return await self.drained()

    @property
    def has_api(self) -> bool:
        return Role.API in self.settings.roles

    def where(self, listener: socket.socket | None) -> dict[str, object]:
        said: dict[str, object] = {
            "store": self.beat.store.url,
            "roles": ",".join(sorted(self.settings.roles)),
        }
        if listener is not None:
            host, port = listener.getsockname()[:2]
            said["address"] = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        return said

    async def drained(self) -> bool:
        """Let running work end; a second signal does not wait for it, and the answer is False."""
        log.info("draining", extra={"timeout": span_text(self.settings.worker.drain_timeout)})
        drain = asyncio.create_task(self.all_stopped())
        if not await first_of(drain, asyncio.create_task(self.at_once.wait())):
            log.warning("stopped at once")
            return False
        log.info("drained", extra={"handed_back": drain.result()})
        return True

    async def all_stopped(self) -> int:
        """This process and its siblings drain together; the answer speaks of this one."""
        stopped, _ = await asyncio.gather(self.beat.stop(), self.siblings.stop())
        return stopped

    @contextlib.asynccontextmanager
    async def answering(self, listener: socket.socket) -> AsyncGenerator[None, None]:
        """Answer HTTP requests until the block ends."""
        server = Server(
            uvicorn.Config(
                build_api(self.operator(), self.api_options()),
                log_config=None,
                access_log=False,
                lifespan="off",
                server_header=False,
                backlog=BACKLOG,
                timeout_graceful_shutdown=REQUESTS_GRACE,
                h11_max_incomplete_event_size=65_536,
            )
        )
        task = asyncio.create_task(server.serve(sockets=[listener]))
        await server.listens.wait()
        try:
            yield
        finally:
            server.should_exit = True
            await task

    def operator(self) -> Operator:
        """What comes in from outside waits for room; what this program sends itself does not."""
        room = room_of(self.beat.store, self.settings.api.disk_free_min)
        return msgspec.structs.replace(self.beat.operator, check_room=room)

    def api_options(self) -> ApiOptions:
        api = self.settings.api
        return ApiOptions(
            keys=api.keys,
            hosts=LOOPBACK_NAMES if api.is_loopback and not api.keys else (),
            ready=self.readiness,
            metrics=self.measured,
        )

    async def readiness(self) -> Readiness:
        await self.beat.store.ping()
        return {
            "store": "ok",
            "service": "ok" if self.is_ready else "starting or draining",
            **self.loops(),
        }

    def loops(self) -> dict[str, str]:
        """Each loop that has been heard of, and how long ago when that is too long."""
        return {
            f"{name} loop": "ok" if silence < LOOP_SILENT_MAX else f"silent for {silence:.0f} s"
            for name, silence in self.telemetry.counts.silences().items()
            if name not in RESTFUL_LOOPS
        }

    async def measured(self) -> tuple[bytes, str]:
        await self.metrics.refresh(self.beat.store, self.beat.clock.now())
        return self.metrics.exposition(), CONTENT_TYPE


RESTFUL_LOOPS: Final = frozenset({"pruner", "replanner"})
"""Loops that go round less often than `LOOP_SILENT_MAX`."""


class Server(uvicorn.Server):
    """uvicorn inside our event loop: signals are ours, and so is the socket."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listens = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listens.set()


def siblings_for(settings: Settings, arguments: Sequence[str]) -> Siblings:
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
    return Siblings(arguments, worker.processes - 1, worker.drain_timeout.total_seconds())


def fitted(beat: Onbeat, settings: Settings) -> Onbeat:
    """The program's Onbeat, with the options of the settings and, where they name one, its store.

    A program that names its own store keeps it unless the settings say otherwise.
    """
    if settings.store not in {beat.url, Settings().store}:
        beat.store, beat.url = open_store(settings.store), settings.store
    beat.options = Options(
        runtime=runtime_options(settings),
        retry=settings.retry.policy,
        http=HttpPolicy(
            timeout=settings.http.timeout,
            private_allowed=settings.allows_private,
            allowed=allowed_from(settings.http.allow),
        ),
        drain_timeout=settings.worker.drain_timeout,
        transport=settings.transport,
        connections=settings.connections,
        remote_tasks=frozenset(settings.remote.tasks),
        remote_lease=settings.remote.lease,
    )
    return beat


def runtime_options(settings: Settings) -> RuntimeOptions:
    return RuntimeOptions(
        roles=frozenset(settings.roles),
        concurrency=settings.worker.concurrency,
        prefetch=settings.worker.prefetched,
        queues=settings.worker.queues,
        lease=settings.worker.lease,
        planner_interval=settings.planner.interval,
        horizon=settings.planner.horizon,
        keep=settings.prune.after,
        keep_failed=settings.prune.failed_after,
    )


@contextlib.contextmanager
def listening(settings: Settings) -> Generator[socket.socket, None, None]:
    """The API's socket. Raises `Misconfigured` when the address cannot be had."""
    host, port = settings.api.host, settings.api.port
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
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
def signals_to(service: Service) -> Generator[None, None, None]:
    """The first signal asks the service to drain, the second to stop at once."""
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        if service.signalled.is_set():
            service.at_once.set()
        service.signalled.set()

    for number in SIGNALS:
        loop.add_signal_handler(number, on_signal)
    try:
        yield
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
