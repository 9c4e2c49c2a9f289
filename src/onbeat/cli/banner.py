"""What `onbeat up` shows at its start to people at a terminal."""

import asyncio
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from onbeat.cli.main import version_text
from onbeat.cli.output import heading, plain, show_message, show_record
from onbeat.cli.times import in_short, utc_text
from onbeat.model.errors import OnbeatError
from onbeat.operations.coming_work import ComingFire, ComingWork, coming_work_of
from onbeat.operations.context import OperationContext
from onbeat.service import Announce
from onbeat.settings import Settings
from onbeat.telemetry.log import form_on
from onbeat.telemetry.redaction import without_credentials

FIRES_SHOWN: Final = 3
UNKNOWN_SHOWN: Final = 5
READ_SECONDS_MAX: Final = 2.0
WITHIN: Final = "memory://"


def announce_for(settings: Settings) -> Announce | None:
    """None where nobody would read a banner: beside a terminal, or beside logfmt and JSON."""
    is_read = sys.stdout.isatty() and form_on(sys.stdout, settings.log) == "console"
    if not settings.log.banner or not is_read:
        return None

    async def announce(context: OperationContext, address: str | None) -> None:
        show_banner(settings, context, address, await coming_in_time(context))

    return announce


async def coming_in_time(context: OperationContext) -> ComingWork | None:
    """None where the store does not answer soon: the start does not wait for a banner."""
    try:
        async with asyncio.timeout(READ_SECONDS_MAX):
            return await coming_work_of(context, FIRES_SHOWN)
    except (OnbeatError, TimeoutError):
        return None


def show_banner(
    settings: Settings, context: OperationContext, address: str | None, coming: ComingWork | None
) -> None:
    heading(version_text())
    fields = {"store": context.store.url, "transport": transport_of(settings)}
    fields |= {"roles": ", ".join(settings.roles)}
    if address is not None:
        fields |= {"dashboard": address, "API": f"{address}/api"}
    if coming is not None:
        fields |= {"next": next_text(coming, context.clock.now())}
    show_record({name: with_lines(text) for name, text in fields.items()})
    if coming is not None and coming.unknown:
        show_message(f"! No worker that is alive knows {unknown_text(coming.unknown)}.")
    show_message("Ctrl-C stops it.")


def transport_of(settings: Settings) -> str:
    if settings.transport == WITHIN:
        return "none: jobs stay in this process"
    return without_credentials(settings.transport)


def next_text(coming: ComingWork, now: datetime) -> str:
    if coming.fires is None:
        return f"more than can be searched: {coming.schedules:,} schedules"
    if not coming.fires:
        return "nothing: no active schedule fires"
    return "\n".join(fire_text(fire, now) for fire in coming.fires)


def fire_text(fire: ComingFire, now: datetime) -> str:
    return f"{in_short(utc_text(fire.at), now)}: {' '.join(fire.schedule.splitlines())}"


def with_lines(text: str) -> str:
    return "\n".join(map(plain, text.split("\n")))


def unknown_text(lanes: Sequence[str]) -> str:
    """As many as fit, and the number of the others."""
    shown = ", ".join(lanes[:UNKNOWN_SHOWN])
    more = len(lanes) - UNKNOWN_SHOWN
    return f"{shown} and {more:,} more tasks" if more > 0 else shown
