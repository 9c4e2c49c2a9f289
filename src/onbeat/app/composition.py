"""Builds the runners and the loops of one `Onbeat`, which open and close together."""

from base64 import b32encode
from hashlib import sha256
from importlib.util import find_spec
from typing import Final

from onbeat.app.backend import Backend
from onbeat.app.handler_context import HandlerContext
from onbeat.app.options import IN_PROCESS
from onbeat.app.sidecar import sidecar_for
from onbeat.app.stores import SQLITE, open_store
from onbeat.app.system import KernelLiveness, identity
from onbeat.engine.broker.dead_letters import DeadLetterPublisher
from onbeat.engine.broker.remote import RemoteTasks
from onbeat.engine.broker.setup import BrokerSetup
from onbeat.engine.dependencies import Dependencies
from onbeat.engine.runtime import Runtime
from onbeat.model.target import HandlerTarget, HttpTarget, MessageTarget, Target, message_lane
from onbeat.ports.sidecar import NO_SIDECAR, Sidecar
from onbeat.ports.target import TargetRunner
from onbeat.ports.transport import Broker
from onbeat.targets.breaker import Breakers
from onbeat.targets.decryption import DecryptingRunner
from onbeat.targets.lazy import LazyRunner
from onbeat.targets.message import MessageRunner
from onbeat.targets.runner import HandlerRunner

SERVERS: Final = frozenset({"postgresql", "postgres", "mysql", "mariadb"})


class RunningApp:
    """The loops of one Onbeat with the runners that they need, opened and closed together."""

    def __init__(self, backend: Backend) -> None:
        self.drain_timeout = backend.options.drain_timeout
        self.handlers = HandlerRunner(backend.registry, HandlerContext(backend))
        self.callbacks = callback_runner(backend)
        self.messages = MessageRunner(
            backend.options.connections, broker_for, Breakers(backend.clock, backend.telemetry)
        )
        self.broker_setup = broker_setup_of(backend)
        self.sidecar = sidecar_of(backend)
        self.runtime = Runtime(
            dependencies_of(backend, self), backend.options.runtime, self.broker_setup
        )

    @property
    def dead_letters(self) -> DeadLetterPublisher | None:
        """Publishes new dead letters, where there is a broker."""
        return None if self.broker_setup is None else self.broker_setup.dead_letters

    async def start(self) -> None:
        await self.open()
        await self.runtime.start()

    async def open(self) -> None:
        """Open the runners, without starting any loop."""
        await self.handlers.open()
        if self.callbacks is not None:
            await self.callbacks.open()

    async def close(self) -> None:
        await self.messages.close()
        if self.callbacks is not None:
            await self.callbacks.close()
        await self.handlers.close()

    async def stop(self) -> int:
        """Drain, then end everything. Returns how many attempts were stopped early."""
        stopped = await self.runtime.drain(self.drain_timeout)
        await self.abandon()
        return stopped

    async def abandon(self) -> None:
        """End everything at once; running jobs count as lost."""
        await self.runtime.stop()
        await self.close()


def callback_runner(backend: Backend) -> TargetRunner | None:
    """None without the `http` extra: other workers then run the callbacks."""
    if find_spec("aiohttp") is None:
        return None
    return LazyRunner(lambda: http_runner(backend))


def http_runner(backend: Backend) -> TargetRunner:
    from onbeat.targets.http import HttpRunner  # noqa: PLC0415  slow to load

    return HttpRunner(backend.clock, backend.options.http, telemetry=backend.telemetry)


def dependencies_of(backend: Backend, running: RunningApp) -> Dependencies:
    runners: dict[type[Target], TargetRunner] = {
        HandlerTarget: DecryptingRunner(running.handlers, backend.cipher),
        MessageTarget: DecryptingRunner(running.messages, backend.cipher),
    }
    others = frozenset(message_lane(name) for name in running.messages.urls)
    if running.callbacks is not None:
        runners[HttpTarget] = DecryptingRunner(running.callbacks, backend.cipher)
        others |= {"@http"}
    return Dependencies(
        store=backend.store,
        clock=backend.clock,
        randomness=backend.randomness,
        liveness=KernelLiveness(),
        telemetry=backend.telemetry,
        runners=runners,
        lanes=lambda: backend.registry.tasks() | others,
        identity=identity(short_name(backend.randomness.ids(1)[0]), backend.clock.now()),
        compile=backend.registry.compile,
        sidecar=running.sidecar,
    )


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
        RemoteTasks(options.remote_tasks, backend.registry.tasks),
        options.remote_lease,
    )
