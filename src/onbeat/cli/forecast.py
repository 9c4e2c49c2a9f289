"""`onbeat forecast`: the number of occurrences in the coming hours."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any, Final

import click

from onbeat.cli.client import ConnectionOptions, json_option, with_client
from onbeat.cli.output import console, plain, show_json
from onbeat.cli.times import local_now

EPILOG: Final = """\b
Examples:
  onbeat forecast                    the next seven days, hour by hour
  onbeat forecast --days 1 --json
  onbeat forecast --after 2030-03-30T00:00:00Z --days 2

\b
A row is a day, a column an hour, both in this machine's time zone. A dot is
an hour without any; the darker the block, the more occurrences. A plus says
that there may be more."""

SHADES: Final = "·░▒▓█"
COLOURS: Final = ("dim", "blue", "cyan", "yellow", "red")


@click.command("forecast", epilog=EPILOG)
@click.option("--after", metavar="T", help="Begin here, an RFC 3339 instant.  [default: now]")
@click.option(
    "--days", type=click.IntRange(1, 31), default=7, show_default=True, help="How far to look."
)
@json_option
@with_client
def forecast(connection: ConnectionOptions, *, after: str | None, days: int, as_json: bool) -> None:
    """Show how often all active schedules fire in each coming hour."""
    first = begin(after)
    last = first + timedelta(days=days)
    answer = connection.call(
        "schedule.forecast", {"from": first.isoformat(), "to": last.isoformat()}
    )
    show_json(answer) if as_json else show_map(answer)


def begin(after: str | None) -> datetime:
    if after is None:
        return local_now()
    try:
        result = datetime.fromisoformat(after)
    except ValueError as error:
        raise click.BadParameter(f"{error}", param_hint="--after") from error
    if result.tzinfo is None:
        raise click.BadParameter(
            "needs an offset, such as 2030-03-30T00:00:00Z", param_hint="--after"
        )
    return result


def show_map(answer: Mapping[str, Any]) -> None:
    out = console()
    if not answer["schedules"]:
        out.print("no active schedules")
        return
    days = by_day(answer["hours"])
    # A service of an older version does not tell it.
    to = answer.get("counted_to")
    cut_at = None if to is None else datetime.fromisoformat(to).astimezone()
    most = max((hour["fires"] for hour in answer["hours"]), default=0)
    out.print("            " + "".join(f"{hour:<6}" for hour in range(0, 24, 3)) + "   total")
    for day, fires in days.items():
        cells = "".join(cell(fires.get(hour), most) for hour in range(24))
        plus = "+" if cut_at is not None and day >= cut_at.date() else ""
        out.print(f"{day:%a %d %b}  {cells}  {sum(fires.values()):>7,}{plus}")
    least, plus = ("", "") if cut_at is None else ("at least ", "+")
    out.print(
        f"\n{least}{answer['fires']:,} occurrences of {answer['schedules']:,} active schedules;"
        f" the busiest hour has {most:,}{plus}",
        soft_wrap=True,
    )
    if cut_at is not None:
        out.print(f"from {cut_at:%a %d %b %H:%M} on there may be more than is counted")
    tell_cut(answer["cut"])


def by_day(hours: Sequence[Mapping[str, Any]]) -> dict[date, dict[int, int]]:
    """Fires by local day and hour; an hour repeated by a clock change counts both passes."""
    days: dict[date, dict[int, int]] = {}
    for hour in hours:
        at = datetime.fromisoformat(hour["at"]).astimezone()
        of_day = days.setdefault(at.date(), {})
        of_day[at.hour] = of_day.get(at.hour, 0) + hour["fires"]
    return days


def cell(fires: int | None, most: int) -> str:
    """Two columns: empty for an hour outside the span, else a shade relative to the maximum."""
    if fires is None:
        return "  "
    shade = 0 if fires == 0 else 1 + min(3, fires * 4 // (most + 1))
    return f"[{COLOURS[shade]}]{SHADES[shade] * 2}[/]"


def tell_cut(names: Sequence[str]) -> None:
    if names:
        shown = ", ".join(plain(name) for name in names[:5])
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        console().print(f"not counted to the end: {shown}{more}")
