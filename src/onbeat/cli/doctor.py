"""`onbeat doctor`."""

import asyncio
import contextlib
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

import click
import msgspec

from onbeat.app.composition import broker_for
from onbeat.app.options import IN_PROCESS
from onbeat.cli.client import ConnectionOptions, config_option, json_option
from onbeat.cli.exit_codes import FAILED, OK
from onbeat.cli.migrate import inspect_store, store_option
from onbeat.cli.output import plain, show_json, show_table, styled_state
from onbeat.cli.times import local_now
from onbeat.model.errors import Unavailable
from onbeat.ports.store import Finding
from onbeat.recurrence import tzdata_version
from onbeat.rules.encryption import read_keys
from onbeat.settings import Settings

OPEN_FILES_MIN: Final = 4_096
BROKER_SECONDS_MAX: Final = 10.0
FIRST_YEAR: Final = 2024
LAST_YEAR: Final = 2100


@click.command("doctor")
@store_option
@config_option
@json_option
def doctor(store: str | None, config: Path | None, *, as_json: bool) -> int:
    """Check store, brokers, clock, time zones and limits; exit 1 when a check fails."""
    connection = ConnectionOptions(store=store, config=config)
    _, result = asyncio.run(inspect_store(connection))
    brokers = asyncio.run(broker_findings(connection.settings()))
    secrets = encryption_finding(connection.settings())
    findings = [*own_findings(local_now()), *result, secrets, *brokers]
    if as_json:
        show_json({"findings": [msgspec.structs.asdict(finding) for finding in findings]})
    else:
        show_findings(findings)
    return OK if all(finding.ok for finding in findings) else FAILED


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


def show_findings(findings: Sequence[Finding]) -> None:
    rows = [
        (styled_state("ok" if result.ok else "warn"), plain(result.name), finding_line(result))
        for result in findings
    ]
    show_table(("", "WHAT", "FOUND"), rows, empty="", whole=("", "WHAT"))


def finding_line(finding: Finding) -> str:
    return plain(
        finding.value if finding.ok or not finding.remedy else f"{finding.value}: {finding.remedy}"
    )


def own_findings(now: datetime) -> Iterator[Finding]:
    """Checks of this machine that need no store."""
    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding(name="python", ok=sys.version_info >= (3, 11), value=version)
    yield Finding(name="time zone data", ok=True, value=str(tzdata_version()))
    local = now.astimezone()
    yield Finding(
        name="clock",
        ok=FIRST_YEAR <= now.year < LAST_YEAR,
        value=f"{local:%Y-%m-%d %H:%M:%S} {local.tzname()}",
        remedy="set the clock, and keep it right by NTP",
    )
    yield from open_files()


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
