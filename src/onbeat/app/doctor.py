"""The checks of `onbeat doctor`, and their results for those who look again and again."""

import asyncio
import concurrent.futures
import contextlib
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Final

from onbeat.app.composition import broker_for
from onbeat.app.options import IN_PROCESS
from onbeat.app.stores import open_store
from onbeat.model.errors import Unavailable
from onbeat.ports.checks import Checkup
from onbeat.ports.clock import Clock
from onbeat.ports.store import Finding, Store
from onbeat.recurrence import packaged_tzdata_version, tzdata_version
from onbeat.rules.encryption import read_keys
from onbeat.settings import Settings

OPEN_FILES_MIN: Final = 4_096
BROKER_SECONDS_MAX: Final = 10.0
FIRST_YEAR: Final = 2024
LAST_YEAR: Final = 2100
CHECKUP_PERIOD: Final = 60.0
"""Seconds from the end of a checkup to the begin of the next, at least."""
REST: Final = 50
"""A checkup rests for so many times as long as it took: that of a large file reads all of it."""
PATIENCE: Final = 2.0
"""Seconds that who asks waits for a checkup that runs."""


class Doctor:
    """Examines a service for its pages: at most once a minute, in a thread of its own.

    The store is opened once more for that, as its checks may take long, and the connections of the
    service are for its work. A store within the process is examined as it is.
    """

    def __init__(self, settings: Settings, store: Store, clock: Clock) -> None:
        self.settings = settings
        self.store = store
        self.clock = clock
        self.newest: Checkup | None = None
        self.due_at = 0.0
        self.work: asyncio.Task[None] | None = None

    async def checkup(self) -> Checkup | None:
        """The newest one; a checkup that runs is waited for, but not for long."""
        if self.work is None and (self.newest is None or self.clock.monotonic() >= self.due_at):
            self.work = asyncio.create_task(self.examine())
        if self.work is not None:
            await asyncio.wait([self.work], timeout=PATIENCE)
        return self.newest

    async def examine(self) -> None:
        begun = self.clock.monotonic()
        try:
            findings = await self.find()
        except Exception as error:  # noqa: BLE001  that a check breaks is a finding too
            value = f"{type(error).__name__}: {error}"
            findings = [Finding(name="checks", ok=False, value=value, remedy="run onbeat doctor")]
        now = self.clock.monotonic()
        self.due_at = now + max(CHECKUP_PERIOD, REST * (now - begun))
        self.newest = Checkup(at=self.clock.now(), findings=tuple(findings))
        self.work = None

    async def find(self) -> Sequence[Finding]:
        if self.store.url.startswith("memory:"):
            of_store = await self.store.doctor()
        else:
            of_store = await in_thread(lambda: asyncio.run(examine_store(self.settings.store)))
        return await findings_of(self.settings, of_store, self.clock.now())


async def examine_store(url: str) -> Sequence[Finding]:
    """The findings of the store; that it is away is one."""
    store = open_store(url)
    try:
        await store.open()
        return await store.doctor()
    except Unavailable as error:
        return [Finding(name="store", ok=False, value=str(error), remedy="see its server's log")]
    finally:
        await store.close()


async def in_thread(work: Callable[[], Sequence[Finding]]) -> Sequence[Finding]:
    """The result of `work`, in a thread that delays no end of the process."""
    result = concurrent.futures.Future[Sequence[Finding]]()

    def run() -> None:
        try:
            result.set_result(work())
        except Exception as error:  # noqa: BLE001  raised where it is waited for
            result.set_exception(error)

    threading.Thread(target=run, name="onbeat-doctor", daemon=True).start()
    return await asyncio.wrap_future(result)


async def findings_of(
    settings: Settings, of_store: Sequence[Finding], now: datetime
) -> Sequence[Finding]:
    """All findings, in the order in which they are shown."""
    brokers = await broker_findings(settings)
    return [*own_findings(now), *of_store, encryption_finding(settings), *brokers]


def encryption_finding(settings: Settings) -> Finding:
    """The key that encrypts credentials; without one they are stored in plain text."""
    keys = read_keys(settings.secrets.keys)
    if not keys:
        value = "off: who can read the store or a backup reads credentials; see `secrets.keys`"
        return Finding(name="encryption at rest", ok=True, value=value)
    first, *former = keys
    others = f", {len(former)} former keys decrypt" if former else ""
    return Finding(name="encryption at rest", ok=True, value=f"key {first.id}{others}")


async def broker_findings(settings: Settings) -> Sequence[Finding]:
    """Whether the brokers of the settings answer.

    The broker between roles needs no durability: the store is the only truth. A broker of outgoing
    messages belongs to others, who may need durability.
    """
    findings: list[Finding] = []
    if settings.transport != IN_PROCESS:
        message = "answers; its own persistence is not needed, since every job is in the store"
        findings.append(await broker_finding("transport", settings.transport, message))
    for name, url in settings.connections.items():
        findings.append(await broker_finding(f"connection {name}", url, "answers"))
    return findings


async def broker_finding(name: str, url: str, message: str) -> Finding:
    """Raises `Misconfigured` for a URL that names no broker."""
    broker = broker_for(url)
    try:
        await broker.open()
        async with asyncio.timeout(BROKER_SECONDS_MAX):
            await broker.ping()
    except (Unavailable, TimeoutError) as error:
        why = str(error) or f"no answer within {BROKER_SECONDS_MAX:g} s"
        return Finding(name=name, ok=False, value=why, remedy="start it, or correct its URL")
    finally:
        await broker.close()
    return Finding(name=name, ok=True, value=f"{broker.url} {message}")


def own_findings(now: datetime) -> Iterator[Finding]:
    """Checks of this machine that need no store."""
    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding(name="python", ok=sys.version_info >= (3, 11), value=version)
    yield Finding(name="time zone data", ok=True, value=zone_data())
    local = now.astimezone()
    yield Finding(
        name="clock",
        ok=FIRST_YEAR <= now.year < LAST_YEAR,
        value=f"{local:%Y-%m-%d %H:%M:%S} {local.tzname()}",
        remedy="set the clock, and keep it right by NTP",
    )
    yield from open_files()


def zone_data() -> str:
    """The version in use, and what to do where it is older than the one that Onbeat brings.

    Versions are a year and a letter, so their order is that of their texts.
    """
    used, packaged = tzdata_version(), packaged_tzdata_version()
    if packaged is None or packaged <= used:
        return used
    return (
        f"{used} of this machine, though the package tzdata has {packaged}:"
        ' PYTHONTZPATH="" takes that'
    )


def open_files() -> Iterator[Finding]:
    """Each concurrent callback holds a file descriptor."""
    with contextlib.suppress(ImportError):  # Windows has no such limit
        import resource  # noqa: PLC0415

        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        unlimited = soft == resource.RLIM_INFINITY
        yield Finding(
            name="open files",
            ok=unlimited or soft >= OPEN_FILES_MIN,
            value="no limit" if unlimited else f"up to {soft}",
            remedy=f"raise the limit to {OPEN_FILES_MIN} or more (ulimit -n)",
        )
