"""`onbeat timeline`: what ran and what will run, drawn as text."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import click

from onbeat.cli.client import ConnectionOptions, json_option, with_client
from onbeat.cli.options import given_options, page_option
from onbeat.cli.output import console, plain, show_json, tell_page
from onbeat.cli.times import from_wire, zone_of
from onbeat.model.timeline import LaneOrder, TimelineSpan

EPILOG: Final = """\b
Examples:
  onbeat timeline                          today, trouble first
  onbeat timeline --day 2026-03-29 --tz Europe/Berlin
  onbeat timeline --span week --q billing --order name
  onbeat timeline --json

\b
A line is a schedule. A sign is the worst of what was due in its part of the
day: x failed, > running, o waiting, ~ skipped, / cancelled, # succeeded,
: ran and no longer kept, + planned. The bar in the first line is now."""

COLUMNS: Final = 72
NAME_COLUMNS: Final = 22
SIGNS: Final = {
    "failed": "[red]x[/]",
    "running": "[cyan]>[/]",
    "waiting": "[yellow]o[/]",
    "skipped": "[yellow]~[/]",
    "cancelled": "[yellow]/[/]",
    "succeeded": "[green]#[/]",
    "forgotten": "[dim]:[/]",
    "planned": "[dim]+[/]",
}
"""The worst first."""


@click.command("timeline", epilog=EPILOG)
@click.option("--day", metavar="DAY", help="A date, or an instant for six hours.  [default: today]")
@click.option(
    "--span",
    type=click.Choice([str(span) for span in TimelineSpan]),
    default=str(TimelineSpan.DAY),
    show_default=True,
    help="How much of time.",
)
@click.option("--tz", metavar="ZONE", help="The zone of days and hours.  [default: UTC]")
@click.option("--q", metavar="TEXT", help="Part of a name or key.")
@click.option("--status", type=click.Choice(["active", "paused", "finished"]), help="Only these.")
@click.option("--queue", metavar="NAME", help="Only schedules of this queue.")
@click.option("--schedule", "schedule_id", metavar="ID", help="Only this schedule.")
@click.option(
    "--order",
    type=click.Choice([str(order) for order in LaneOrder]),
    default=str(LaneOrder.TROUBLE),
    show_default=True,
    help="Which come first.",
)
@page_option
@json_option
@with_client
def timeline(connection: ConnectionOptions, *, as_json: bool, **values: Any) -> None:
    """Show what schedules did and will do, on one axis of time."""
    names = ("day", "span", "tz", "q", "status", "queue", "schedule_id", "order", "page")
    answer = connection.call("timeline.show", given_options(values, *names))
    show_json(answer) if as_json else show_lanes(answer)


def show_lanes(answer: Mapping[str, Any]) -> None:
    out = console()
    if not answer["lanes"]:
        out.print("no schedules")
        return
    first, last = from_wire(answer["from"]), from_wire(answer["to"])
    zone = zone_of(answer["timezone"])
    out.print(
        f"{first.astimezone(zone):%A %d %B %Y %H:%M}, {answer['hours']:g} hours,"
        f" {plain(answer['timezone'])}"
    )
    for change in answer["clock_changes"]:
        what = "does not exist" if change["kind"] == "gap" else "comes twice"
        out.print(f"{change['from']} to {change['to']} {what}")
    if answer["kept_since"] is not None:
        kept = from_wire(answer["kept_since"]).astimezone(zone)
        out.print(f"succeeded runs before {kept:%d %b %H:%M} are no longer kept")
    out.print(" " * NAME_COLUMNS + hours_line(answer, first, last), soft_wrap=True)
    for name, buckets in [("All", answer["all"]), *named(answer["lanes"])]:
        cells = "".join(row_of(buckets, first, last))
        out.print(f"{plain(name[: NAME_COLUMNS - 2]):<{NAME_COLUMNS}}{cells}", soft_wrap=True)
    tell_rest(answer)


def named(lanes: Sequence[Mapping[str, Any]]) -> list[tuple[str, Sequence[Mapping[str, Any]]]]:
    return [(lane["name"], lane["buckets"]) for lane in lanes]


def hours_line(answer: Mapping[str, Any], first: datetime, last: datetime) -> str:
    """Times of day at equal distances, and a bar at now."""
    cells = [" "] * COLUMNS
    zone, form = zone_of(answer["timezone"]), "%d %b" if answer["span"] == "week" else "%H:%M"
    parts = 7 if answer["span"] == "week" else 8
    for number in range(parts):
        at = first + (last - first) * number / parts
        place = number * COLUMNS // parts
        text = at.astimezone(zone).strftime(form)
        cells[place : place + len(text)] = text
    now = from_wire(answer["now"])
    if first <= now < last:
        cells[column(now, first, last)] = "|"
    return "".join(cells)


def column(at: datetime, first: datetime, last: datetime) -> int:
    return min(int((at - first) / (last - first) * COLUMNS), COLUMNS - 1)


def row_of(buckets: Sequence[Mapping[str, Any]], first: datetime, last: datetime) -> list[str]:
    cells: list[str] = [" "] * COLUMNS
    signs = list(SIGNS.values())
    for bucket in buckets:
        sign = next(sign for name, sign in SIGNS.items() if bucket.get(name))
        place = column(from_wire(bucket["from"]) + half(bucket), first, last)
        if cells[place] == " " or signs.index(sign) < signs.index(cells[place]):
            cells[place] = sign
    return cells


def half(bucket: Mapping[str, Any]) -> timedelta:
    return (from_wire(bucket["to"]) - from_wire(bucket["from"])) / 2


def tell_rest(answer: Mapping[str, Any]) -> None:
    out = console()
    for lane in answer["lanes"]:
        if lane["since"] is not None:
            out.print(f"{plain(lane['name'])}: and more before {lane['since']}")
        if lane["unknown"] is not None:
            out.print(f"{plain(lane['name'])}: what comes is not known, {plain(lane['unknown'])}")
    tell_page(answer, len(answer["lanes"]), answer["schedules"])
