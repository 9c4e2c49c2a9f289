"""`onbeat migrate`, `onbeat doctor`, `onbeat openapi`."""

import asyncio
import contextlib
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from onbeat.app.composition import IN_PROCESS, broker_at
from onbeat.cli.connection import Connection, config_option, json_option
from onbeat.cli.endings import FAILED, OK
from onbeat.cli.examples import examples
from onbeat.cli.local import opened_with
from onbeat.cli.output import done, plain, show_json, show_table, styled
from onbeat.cli.times import present
from onbeat.model.errors import Unavailable
from onbeat.ports.store import Finding
from onbeat.recurrence import tzdata_version
from onbeat.settings import Settings

OPEN_FILES_MIN: Final = 4_096
BROKER_SECONDS_MAX: Final = 10.0
FIRST_YEAR: Final = 2024
LAST_YEAR: Final = 2100

store_option = click.option("--store", metavar="URL", help="The store.  [default: as configured]")


@click.command(
    "migrate", epilog=examples("onbeat migrate --store sqlite:////var/lib/onbeat/onbeat.db")
)
@store_option
@config_option
@json_option
def migrate(store: str | None, config: Path | None, *, as_json: bool) -> None:
    """Bring the store's schema up to date. Every start does so too."""
    url, _ = asyncio.run(opened_once(Connection(store=store, config=config)))
    show_json({"store": url, "migrated": True}) if as_json else done(f"{url} is up to date")


async def opened_once(connection: Connection) -> tuple[str, Sequence[Finding]]:
    """The store's own word on where it is and how it is."""
    beat = opened_with(connection.settings())
    try:
        await beat.open()
        return beat.store.url, await beat.store.doctor()
    finally:
        await beat.close()


@click.command("doctor")
@store_option
@config_option
@json_option
def doctor(store: str | None, config: Path | None, *, as_json: bool) -> int:
    """Look at store, brokers, clock, time zones and limits; exit 1 when something is not right."""
    connection = Connection(store=store, config=config)
    _, found = asyncio.run(opened_once(connection))
    brokers = asyncio.run(broker_findings(connection.settings()))
    findings = [*own_findings(present()), *found, *brokers]
    if as_json:
        show_json({"findings": [msgspec.structs.asdict(finding) for finding in findings]})
    else:
        show_findings(findings)
    return OK if all(finding.ok for finding in findings) else FAILED


async def broker_findings(settings: Settings) -> Sequence[Finding]:
    """Of the brokers that the settings name, whether they answer.

    What carries jobs between roles needs no durability of its own, whatever the broker: the store
    is the only truth. What messages are sent to is somebody else's, who may need it.
    """
    found: list[Finding] = []
    if settings.transport != IN_PROCESS:
        said = "answers; its own persistence is not needed, since every job is in the store"
        found.append(await broker_finding("transport", settings.transport, said))
    for name, url in settings.connections.items():
        found.append(await broker_finding(f"connection {name}", url, "answers"))
    return found


async def broker_finding(name: str, url: str, said: str) -> Finding:
    """Raises `Misconfigured` for a URL that names no broker."""
    broker = broker_at(url)
    try:
        await broker.open()
        async with asyncio.timeout(BROKER_SECONDS_MAX):
            await broker.ping()
    except (Unavailable, TimeoutError) as error:
        why = str(error) or f"no answer within {BROKER_SECONDS_MAX:g} s"
        return Finding(name=name, ok=False, value=why, remedy="start it, or correct its URL")
    finally:
        await broker.close()
    return Finding(name=name, ok=True, value=f"{broker.url} {said}")


def show_findings(findings: Sequence[Finding]) -> None:
    rows = [
        (styled("ok" if found.ok else "warn"), plain(found.name), advice(found))
        for found in findings
    ]
    show_table(("", "WHAT", "FOUND"), rows, empty="", whole=("", "WHAT"))


def advice(found: Finding) -> str:
    return plain(found.value if found.ok or not found.remedy else f"{found.value}: {found.remedy}")


def own_findings(now: datetime) -> Iterator[Finding]:
    """What can be seen of this machine without the store."""
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
    """Each callback in flight holds a file descriptor."""
    with contextlib.suppress(ImportError):  # not on Windows, which has no such limit
        import resource  # noqa: PLC0415

        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        unlimited = soft == resource.RLIM_INFINITY
        yield Finding(
            name="open files",
            ok=unlimited or soft >= OPEN_FILES_MIN,
            value="no limit" if unlimited else f"up to {soft}",
            remedy=f"raise the limit to {OPEN_FILES_MIN} or more (ulimit -n)",
        )


@click.command("openapi", epilog=examples("onbeat openapi --format json > openapi.json"))
@click.option(
    "--format",
    "form",
    type=click.Choice(["yaml", "json"]),
    default="yaml",
    show_default=True,
    help="Which notation.",
)
def openapi(form: str) -> None:
    """Print the API's OpenAPI 3.1 document."""
    from onbeat.api import openapi_json, openapi_yaml  # noqa: PLC0415  doctor needs no API

    text: Any = openapi_yaml() if form == "yaml" else openapi_json()
    click.echo(text.decode() if isinstance(text, bytes) else text)
