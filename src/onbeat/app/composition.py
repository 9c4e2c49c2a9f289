"""Puts the parts of one Onbeat together: URL in, store and loops out."""

import contextlib
from base64 import b32encode
from collections.abc import Generator
from datetime import timedelta
from hashlib import sha256
from importlib.util import find_spec

import msgspec

from onbeat.app.desk import Desk
from onbeat.app.system import KernelLiveness, SystemChance, SystemClock, identity
from onbeat.engine.brokered import Brokerage
from onbeat.engine.remote import RemoteTasks
from onbeat.engine.runtime import Runtime, RuntimeOptions, World
from onbeat.model.errors import Misconfigured
from onbeat.model.retry import RetryPolicy
from onbeat.model.target import HandlerTarget, HttpTarget, MessageTarget, Target, message_lane
from onbeat.operations.operator import Operator
from onbeat.ports.chance import Chance
from onbeat.ports.clock import Clock
from onbeat.ports.store import Store
from onbeat.ports.target import TargetRunner
from onbeat.ports.telemetry import Telemetry
from onbeat.ports.transport import Broker
from onbeat.rules.addresses import NOTHING_MORE, Allowed
from onbeat.rules.planning import Read
from onbeat.rules.urls import refusal_at_creation
from onbeat.targets.handler import Registry
from onbeat.targets.late import LateRunner
from onbeat.targets.message import MessageRunner
from onbeat.targets.runner import HandlerRunner
from onbeat.transports.direct import DirectTransport

SQLITE = "sqlite:///"
IN_PROCESS = "memory://"


class HttpPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How callbacks are made and where they may go."""

    timeout: timedelta = timedelta(seconds=30)
    private_allowed: bool = True
    allowed: Allowed = NOTHING_MORE

    def refuse(self, url: str) -> str | None:
        """Why a callback to `url` is not allowed, as far as the URL alone tells."""
        return refusal_at_creation(url, private_allowed=self.private_allowed, allowed=self.allowed)


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about one Onbeat but its store and its tasks.

    `transport` carries claimed jobs to workers. `connections` are brokers that messages may go to,
    by name. `remote_tasks` are run by workers in other languages, under leases of `remote_lease`.
    """

    runtime: RuntimeOptions = RuntimeOptions()
    retry: RetryPolicy = RetryPolicy()
    http: HttpPolicy = HttpPolicy()
    drain_timeout: timedelta = timedelta(seconds=30)
    transport: str = IN_PROCESS
    connections: dict[str, str] = {}
    remote_tasks: frozenset[str] = frozenset()
    remote_lease: timedelta = timedelta(minutes=2)


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """What comes in from outside, the same for everything that one Onbeat does."""

    operator: Operator
    store: Store
    clock: Clock
    chance: Chance
    telemetry: Telemetry
    registry: Registry
    read: Read


def open_store(url: str) -> Store:
    """The store that a URL names, not opened yet. Drivers are imported only when they are named.

    Raises `Misconfigured` for a URL that no store here answers to.
    """
    if url == "memory://":
        from onbeat.stores.memory import MemoryStore  # noqa: PLC0415

        return MemoryStore()
    if url.startswith(SQLITE) and len(url) > len(SQLITE):
        from onbeat.stores.sqlite.store import SqliteStore  # noqa: PLC0415

        return SqliteStore(url.removeprefix(SQLITE))
    if url.startswith(("postgresql://", "postgres://")):
        with driver_wanted("asyncpg", "postgres"):
            from onbeat.stores.postgres.store import PostgresStore  # noqa: PLC0415
        return PostgresStore(url)
    if url.startswith(("mysql://", "mariadb://")):
        with driver_wanted("asyncmy", "mysql"):
            from onbeat.stores.mysql.store import MysqlStore  # noqa: PLC0415
        return MysqlStore(url)
    # The password of a URL that was mistyped is one all the same.
    scheme = url.partition("://")[0] if "://" in url else url
    raise Misconfigured(
        f"store {scheme!r} is not one that this version knows: memory://, sqlite:///PATH, "
        "postgresql://USER@HOST/DATABASE or mysql://USER@HOST/DATABASE",
        "store",
    )


@contextlib.contextmanager
def driver_wanted(driver: str, extra: str) -> Generator[None, None, None]:
    """Raises `Misconfigured`, naming the extra to install, where the driver is not there."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != driver:
            raise
        raise Misconfigured(
            f"this store needs {driver}; run: pip install 'onbeat[{extra}]'", "store"
        ) from error


def remote_desk(url: str, api_key: str | None) -> Desk:
    """Asks the service at `url`. Raises `Misconfigured` for a URL that cannot be a service's."""
    from onbeat.app.remote import RemoteDesk  # noqa: PLC0415

    return RemoteDesk(url, api_key)


def system_clock() -> Clock:
    return SystemClock()


def system_chance() -> Chance:
    return SystemChance()


class Machinery:
    """The loops of one Onbeat with the runners that they need, opened and closed together."""

    def __init__(self, parts: Parts, options: Options) -> None:
        self.options = options
        self.handlers = HandlerRunner(parts.registry)
        self.callbacks = callback_runner(parts, options.http)
        self.messages = MessageRunner(options.connections, broker_at)
        self.brokerage = brokerage_of(parts, options)
        self.runtime = Runtime(world(parts, self), options.runtime)

    async def start(self) -> None:
        await self.open()
        await self.runtime.start()

    async def open(self) -> None:
        """Make the runners ready, without beginning any loop."""
        await self.handlers.open()
        if self.callbacks is not None:
            await self.callbacks.open()

    async def close(self) -> None:
        await self.messages.close()
        if self.callbacks is not None:
            await self.callbacks.close()
        await self.handlers.close()

    async def stop(self) -> int:
        """Drain, then end everything. Returns how many attempts had to be stopped."""
        stopped = await self.runtime.drain(self.options.drain_timeout)
        await self.abandon()
        return stopped

    async def abandon(self) -> None:
        """End everything at once; what ran counts as lost."""
        await self.runtime.stop()
        await self.close()


def callback_runner(parts: Parts, policy: HttpPolicy) -> TargetRunner | None:
    """None where the `http` extra is not installed: callbacks are then left to other workers."""
    if find_spec("aiohttp") is None:
        return None
    return LateRunner(lambda: http_runner(parts, policy))


def http_runner(parts: Parts, policy: HttpPolicy) -> TargetRunner:
    from onbeat.targets.http import HttpOptions, HttpRunner  # noqa: PLC0415  slow to load

    return HttpRunner(
        parts.clock,
        HttpOptions(
            timeout=policy.timeout,
            private_allowed=policy.private_allowed,
            allowed=policy.allowed,
        ),
        telemetry=parts.telemetry,
    )


def world(parts: Parts, machinery: Machinery) -> World:
    runners: dict[type[Target], TargetRunner] = {
        HandlerTarget: machinery.handlers,
        MessageTarget: machinery.messages,
    }
    others = frozenset(message_lane(name) for name in machinery.messages.urls)
    if machinery.callbacks is not None:
        runners[HttpTarget] = machinery.callbacks
        others |= {"@http"}
    return World(
        store=parts.store,
        clock=parts.clock,
        chance=parts.chance,
        liveness=KernelLiveness(),
        telemetry=parts.telemetry,
        runners=runners,
        lanes=lambda: parts.registry.tasks() | others,
        identity=identity(short_name(parts.chance.ids(1)[0]), parts.clock.now()),
        read=parts.read,
        transport=DirectTransport,
        brokerage=machinery.brokerage,
    )


def short_name(id: str) -> str:
    """60 bits of the id, which tell the lives of workers apart.

    Every job that runs has its worker's name in its row, in an index and in what is kept of it.
    """
    return b32encode(sha256(id.encode()).digest()).decode().lower()[:12]


def broker_at(url: str) -> Broker:
    from onbeat.app.brokers import open_broker  # noqa: PLC0415  most programs need no broker

    return open_broker(url)


def brokerage_of(parts: Parts, options: Options) -> Brokerage | None:
    """What goes over the transport's broker; None where all roles share this process."""
    if options.transport == IN_PROCESS:
        return None
    from onbeat.app.brokers import brokerage  # noqa: PLC0415  as above

    return brokerage(
        broker_at(options.transport),
        parts.operator,
        RemoteTasks(options.remote_tasks, parts.registry.tasks),
        options.remote_lease,
    )
