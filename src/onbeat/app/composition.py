"""Puts the parts of one Onbeat together: URL in, store and loops out."""

import contextlib
from collections.abc import Generator
from datetime import timedelta

import msgspec

from onbeat.app.desk import Desk
from onbeat.app.system import KernelLiveness, SystemChance, SystemClock, identity
from onbeat.engine.runtime import Runtime, RuntimeOptions, World
from onbeat.model.errors import Misconfigured
from onbeat.model.retry import RetryPolicy
from onbeat.model.target import HandlerTarget, HttpTarget, Target
from onbeat.ports.chance import Chance
from onbeat.ports.clock import Clock
from onbeat.ports.store import Store
from onbeat.ports.target import TargetRunner
from onbeat.ports.telemetry import Telemetry
from onbeat.rules.addresses import NOTHING_MORE, Allowed
from onbeat.rules.planning import Read
from onbeat.rules.urls import refusal_at_creation
from onbeat.targets.handler import Registry
from onbeat.targets.runner import HandlerRunner
from onbeat.transports.memory import MemoryTransport

SQLITE = "sqlite:///"


class HttpPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How callbacks are made and where they may go."""

    timeout: timedelta = timedelta(seconds=30)
    private_allowed: bool = True
    allowed: Allowed = NOTHING_MORE

    def refuse(self, url: str) -> str | None:
        """Why a callback to `url` is not allowed, as far as the URL alone tells."""
        return refusal_at_creation(url, private_allowed=self.private_allowed, allowed=self.allowed)


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about one Onbeat but its store and its tasks."""

    runtime: RuntimeOptions = RuntimeOptions()
    retry: RetryPolicy = RetryPolicy()
    http: HttpPolicy = HttpPolicy()
    drain_timeout: timedelta = timedelta(seconds=30)


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """What comes in from outside, the same for everything that one Onbeat does."""

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
        self.callbacks = callback_runner(parts.clock, options.http)
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


def callback_runner(clock: Clock, policy: HttpPolicy) -> TargetRunner | None:
    """None where the `http` extra is not installed: callbacks are then left to other workers."""
    try:
        from onbeat.targets.http import HttpOptions, HttpRunner  # noqa: PLC0415
    except ImportError:
        return None
    return HttpRunner(
        clock,
        HttpOptions(
            timeout=policy.timeout,
            private_allowed=policy.private_allowed,
            allowed=policy.allowed,
        ),
    )


def world(parts: Parts, machinery: Machinery) -> World:
    runners: dict[type[Target], TargetRunner] = {HandlerTarget: machinery.handlers}
    others: frozenset[str] = frozenset()
    if machinery.callbacks is not None:
        runners[HttpTarget] = machinery.callbacks
        others = frozenset({"@http"})
    return World(
        store=parts.store,
        clock=parts.clock,
        chance=parts.chance,
        liveness=KernelLiveness(),
        telemetry=parts.telemetry,
        runners=runners,
        lanes=lambda: parts.registry.tasks() | others,
        identity=identity(parts.chance.ids(1)[0], parts.clock.now()),
        read=parts.read,
        transport=MemoryTransport,
    )
