"""Composition root: builds the store, the runners and the loops of one Onbeat."""

import contextlib
from base64 import b32encode
from collections.abc import Generator
from functools import lru_cache
from hashlib import sha256
from importlib.util import find_spec
from typing import Final

import msgspec

from onbeat.app.backend import Backend
from onbeat.app.options import IN_PROCESS, Options
from onbeat.app.sidecar import sidecar_for
from onbeat.app.system import KernelLiveness, SystemClock, SystemRandomness, identity
from onbeat.engine.broker.remote import RemoteTasks
from onbeat.engine.broker.runtime import BrokerSetup
from onbeat.engine.runtime import Runtime, RuntimeDependencies
from onbeat.model.errors import Invalid, Misconfigured
from onbeat.model.target import HandlerTarget, HttpTarget, MessageTarget, Target, message_lane
from onbeat.operations.context import OperationContext
from onbeat.ports.clock import Clock
from onbeat.ports.encryption import NO_CIPHER, Cipher
from onbeat.ports.randomness import Randomness
from onbeat.ports.sidecar import NO_SIDECAR, Sidecar
from onbeat.ports.store import Store
from onbeat.ports.target import TargetRunner
from onbeat.ports.telemetry import Telemetry
from onbeat.ports.transport import Broker
from onbeat.rules.encryption import read_keys
from onbeat.rules.plans import Compile
from onbeat.targets.breaker import Breakers
from onbeat.targets.decryption import DecryptingRunner
from onbeat.targets.handler import Registry
from onbeat.targets.http_options import HttpOptions
from onbeat.targets.lazy import LazyRunner
from onbeat.targets.message import MessageRunner
from onbeat.targets.runner import HandlerRunner

KEY_SETS_KEPT: Final = 16  # a program has one set; tests have more
SQLITE = "sqlite:///"
SERVERS = frozenset({"postgresql", "postgres", "mysql", "mariadb"})


class Dependencies(msgspec.Struct, frozen=True, kw_only=True):
    """External dependencies, shared by all parts of one Onbeat.

    `url` names the store, with its secrets.
    """

    url: str
    context: OperationContext
    store: Store
    clock: Clock
    randomness: Randomness
    telemetry: Telemetry
    registry: Registry
    compile: Compile


def open_store(url: str) -> Store:
    """The store for a URL, not opened yet. Drivers are imported on demand.

    Raises `Misconfigured` for an unknown URL scheme.
    """
    if url == "memory://":
        from onbeat.stores.memory import MemoryStore  # noqa: PLC0415

        return MemoryStore()
    if url.startswith(SQLITE) and len(url) > len(SQLITE):
        from onbeat.stores.sqlite.store import SqliteStore  # noqa: PLC0415

        return SqliteStore(url.removeprefix(SQLITE))
    if url.startswith(("postgresql://", "postgres://")):
        with require_driver("asyncpg", "postgres"):
            from onbeat.stores.postgres.store import PostgresStore  # noqa: PLC0415
        return PostgresStore(url)
    if url.startswith(("mysql://", "mariadb://")):
        with require_driver("asyncmy", "mysql"):
            from onbeat.stores.mysql.store import MysqlStore  # noqa: PLC0415
        return MysqlStore(url)
    # A mistyped URL may still contain a password, so only its scheme is shown.
    scheme = url.partition("://")[0] if "://" in url else url
    raise Misconfigured(
        f"store {scheme!r} is not one that this version knows: memory://, sqlite:///PATH, "
        "postgresql://USER@HOST/DATABASE or mysql://USER@HOST/DATABASE",
        "store",
    )


@lru_cache(KEY_SETS_KEPT)
def cipher_for(keys: tuple[str, ...]) -> Cipher:
    """Encrypts with the first key. Raises `Misconfigured` for invalid keys."""
    if not keys:
        return NO_CIPHER
    try:
        read = read_keys(keys)
    except Invalid as error:
        raise Misconfigured(f"secrets.keys: {error}", "secrets.keys") from None
    try:
        from onbeat.targets.encryption import AesGcmCipher  # noqa: PLC0415  slow to load
    except ModuleNotFoundError as error:
        raise Misconfigured(
            "secrets.keys needs cryptography; run: pip install 'onbeat[encryption]'",
            "secrets.keys",
        ) from error
    return AesGcmCipher(read)


@contextlib.contextmanager
def require_driver(driver: str, extra: str) -> Generator[None, None, None]:
    """Raises `Misconfigured`, naming the extra to install, where the driver is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != driver:
            raise
        raise Misconfigured(
            f"this store needs {driver}; run: pip install 'onbeat[{extra}]'", "store"
        ) from error


def remote_backend(url: str, api_key: str | None) -> Backend:
    """A client of the service at `url`. Raises `Misconfigured` for an invalid URL."""
    from onbeat.app.remote_backend import RemoteBackend  # noqa: PLC0415

    return RemoteBackend(url, api_key)


def system_clock() -> Clock:
    return SystemClock()


def system_randomness() -> Randomness:
    return SystemRandomness()


class RunningApp:
    """The loops of one Onbeat with the runners that they need, opened and closed together."""

    def __init__(self, dependencies: Dependencies, options: Options) -> None:
        self.options = options
        self.handlers = HandlerRunner(dependencies.registry)
        self.callbacks = callback_runner(dependencies, options.http)
        self.messages = MessageRunner(
            options.connections, broker_for, Breakers(dependencies.clock, dependencies.telemetry)
        )
        self.broker_setup = broker_setup_of(dependencies, options)
        self.sidecar = sidecar_of(dependencies, options)
        self.runtime = Runtime(runtime_dependencies(dependencies, self), options.runtime)

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
        stopped = await self.runtime.drain(self.options.drain_timeout)
        await self.abandon()
        return stopped

    async def abandon(self) -> None:
        """End everything at once; running jobs count as lost."""
        await self.runtime.stop()
        await self.close()


def callback_runner(dependencies: Dependencies, options: HttpOptions) -> TargetRunner | None:
    """None without the `http` extra: other workers then run the callbacks."""
    if find_spec("aiohttp") is None:
        return None
    return LazyRunner(lambda: http_runner(dependencies, options))


def http_runner(dependencies: Dependencies, options: HttpOptions) -> TargetRunner:
    from onbeat.targets.http import HttpRunner  # noqa: PLC0415  slow to load

    return HttpRunner(dependencies.clock, options, telemetry=dependencies.telemetry)


def runtime_dependencies(dependencies: Dependencies, running: RunningApp) -> RuntimeDependencies:
    runners: dict[type[Target], TargetRunner] = {
        HandlerTarget: DecryptingRunner(running.handlers, dependencies.context.cipher),
        MessageTarget: DecryptingRunner(running.messages, dependencies.context.cipher),
    }
    others = frozenset(message_lane(name) for name in running.messages.urls)
    if running.callbacks is not None:
        runners[HttpTarget] = DecryptingRunner(running.callbacks, dependencies.context.cipher)
        others |= {"@http"}
    return RuntimeDependencies(
        store=dependencies.store,
        clock=dependencies.clock,
        randomness=dependencies.randomness,
        liveness=KernelLiveness(),
        telemetry=dependencies.telemetry,
        runners=runners,
        lanes=lambda: dependencies.registry.tasks() | others,
        identity=identity(short_name(dependencies.randomness.ids(1)[0]), dependencies.clock.now()),
        compile=dependencies.compile,
        broker_setup=running.broker_setup,
        sidecar=running.sidecar,
    )


def sidecar_of(dependencies: Dependencies, options: Options) -> Sidecar:
    url = shareable_url(dependencies)
    if url is None or not options.sidecar:
        return NO_SIDECAR
    return sidecar_for(url, dependencies.clock, dependencies.telemetry)


def shareable_url(dependencies: Dependencies) -> str | None:
    """A URL by which another process can open the same store; None if there is none."""
    shown = dependencies.store.url
    if shown.startswith(SQLITE):
        return shown  # absolute path: the working directory may have changed
    is_named = (
        dependencies.url.partition("://")[0] in SERVERS
        and open_store(dependencies.url).url == shown
    )
    return dependencies.url if is_named else None


def short_name(id: str) -> str:
    """A hash of 60 bits that distinguishes worker processes.

    Short because every running job has its worker's name in its row, an index and its history.
    """
    return b32encode(sha256(id.encode()).digest()).decode().lower()[:12]


def broker_for(url: str) -> Broker:
    from onbeat.app.brokers import open_broker  # noqa: PLC0415  most programs need no broker

    return open_broker(url)


def broker_setup_of(dependencies: Dependencies, options: Options) -> BrokerSetup | None:
    """The messages over the transport's broker; None where all roles share this process."""
    if options.transport == IN_PROCESS:
        return None
    from onbeat.app.brokers import build_broker_setup  # noqa: PLC0415  as above

    return build_broker_setup(
        broker_for(options.transport),
        dependencies.context,
        RemoteTasks(options.remote_tasks, dependencies.registry.tasks),
        options.remote_lease,
    )
