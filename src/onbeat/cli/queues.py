"""`onbeat queue`."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import click

from onbeat.cli.client import ConnectionOptions, json_option, with_client
from onbeat.cli.examples import examples
from onbeat.cli.option_types import span
from onbeat.cli.options import field, given_options, limit_option, options, page_option
from onbeat.cli.output import (
    plain,
    show_json,
    show_message,
    show_record,
    show_table,
    styled_state,
    tell_page,
)
from onbeat.cli.times import in_short, local_now

GROUP_COLUMNS: Final = ("GROUP", "WAITING", "RUNNING", "SHARE", "STARTS SINCE")
COUNTS: Final = ("WAITING", "DUE", "RUNNING")
LIMITS: Final = ("concurrency", "rate", "group_concurrency", "group_rate", "late_after")
NO_LIMIT_WORDS: Final = {
    "concurrency": "limit of jobs that run at once",
    "rate": "limit of starts",
    "group_concurrency": "limit of jobs of a group",
    "group_rate": "limit of starts of a group",
    "late_after": "watch for lateness",
}


@click.group()
def queue() -> None:
    """Queues: named lines of jobs."""


@queue.command("list")
@limit_option()
@page_option
@json_option
@with_client
def list_queues(connection: ConnectionOptions, *, as_json: bool, **values: Any) -> None:
    """List queues that have live jobs, are paused or are limited."""
    answer = connection.call("queue.list", values)
    if as_json:
        show_json(answer)
        return
    now = local_now()
    rows = [
        (
            plain(result["name"]),
            styled_state("paused" if result["paused"] else "active"),
            *(plain(result[count.lower()]) for count in COUNTS),
            plain(in_short(result["oldest_due_at"], now)),
            plain(limits_words(result["limits"])),
        )
        for result in answer["queues"]
    ]
    columns = ("QUEUE", "STATUS", *COUNTS, "OLDEST DUE", "LIMITS")
    show_table(columns, rows, empty="no queues have jobs", right=COUNTS)
    for result in answer["queues"]:
        if "pause" in result:
            show_message(f"{result['name']} is paused {pause_words(result['pause'], now)}")
    tell_page(answer, len(rows), answer["total"])


@queue.command("show", epilog=examples("onbeat queue show tenants"))
@click.argument("name")
@json_option
@with_client
def show(connection: ConnectionOptions, *, name: str, as_json: bool) -> None:
    """Show a queue: its load, its limits, who paused it, and its groups."""
    answer = connection.call("queue.show", {"name": name})
    if as_json:
        show_json(answer)
        return
    now = local_now()
    pause = {"pause": plain(pause_words(answer["pause"], now))} if "pause" in answer else {}
    show_record(
        {
            "queue": plain(answer["name"]),
            "status": styled_state("paused" if answer["paused"] else "active"),
            **pause,
            **{name.lower(): plain(f"{answer[name.lower()]:,}") for name in COUNTS},
            "oldest due": plain(in_short(answer["oldest_due_at"], now)),
            "limits": plain(limits_words(answer["limits"]) or "none"),
        }
    )
    if answer["groups"]:
        show_table(
            GROUP_COLUMNS, map(group_row, answer["groups"]), empty="", right=GROUP_COLUMNS[1:]
        )
        of = ", of the first jobs only" if answer["groups_more"] else ""
        show_message(f"{answer['groups_waiting']:,} groups have waiting jobs{of}")


def pause_words(pause: Mapping[str, Any], now: datetime) -> str:
    """`by ops since 09:12: provider is down`."""
    note = f": {pause['note']}" if "note" in pause else ""
    return f"by {pause['by']} since {in_short(pause['at'], now)}{note}"


def group_row(one: Mapping[str, Any]) -> tuple[str, ...]:
    since = f"{one['starts_since']:,}" if "starts_since" in one else ""
    counts = (f"{one['waiting']:,}", f"{one['running']:,}", f"{one['share']:.0%}", since)
    return (plain(one.get("group", "none")), *map(plain, counts))


@queue.command("pause")
@click.argument("name")
@field("--note", metavar="TEXT", help="Why, for those who find it paused.")
@json_option
@with_client
def pause(connection: ConnectionOptions, *, name: str, note: str | None, as_json: bool) -> None:
    """Stop starting jobs of a queue; running jobs continue."""
    answer = connection.call("queue.pause", {"name": name}, {"note": note} if note else None)
    show_json(answer) if as_json else show_message(f"{answer['name']} paused")


@queue.command("resume")
@click.argument("name")
@json_option
@with_client
def resume(connection: ConnectionOptions, *, name: str, as_json: bool) -> None:
    """Start jobs of a queue again."""
    answer = connection.call("queue.resume", {"name": name})
    show_json(answer) if as_json else show_message(f"{answer['name']} resumed")


def limits_words(limits: Mapping[str, Any]) -> str:
    """`10 at once, 100/s; a group 1 at once; by turns; late after 5m`."""
    own, of_group = bounds_words(limits, ""), bounds_words(limits, "group_")
    turns = limits.get("fair") and "by turns"
    late = limits.get("late_after") and f"late after {limits['late_after']}"
    parts = (own, of_group and f"a group {of_group}", turns, late)
    return "; ".join(words for words in parts if words)


def bounds_words(limits: Mapping[str, Any], prefix: str) -> str:
    concurrency, rate = limits.get(f"{prefix}concurrency"), limits.get(f"{prefix}rate")
    return ", ".join(words for words in (concurrency and f"{concurrency} at once", rate) if words)


LIMIT_EPILOG: Final = examples(
    "onbeat queue limit mail --concurrency 10 --rate 100/s",
    "onbeat queue limit tenants --group-concurrency 1 --group-rate 5/m",
    "onbeat queue limit tenants --fair",
    "onbeat queue limit mail --late-after 5m",
    "onbeat queue limit mail --no-rate",
)


def limit_options(command: Any) -> Any:
    """For each limit an option to set it and one to remove it, and options for fair turns."""
    concurrency = {"type": click.IntRange(1, 1_000_000), "metavar": "N"}
    rate = {"metavar": "COUNT/SPAN"}
    return options(
        field("--concurrency", help="Jobs that may run at once.", **concurrency),
        field("--rate", help="Starts in a span, e.g. 100/s, 10/30s.", **rate),
        field("--group-concurrency", help="Jobs of a group that may run at once.", **concurrency),
        field("--group-rate", help="Starts of a group in a span.", **rate),
        field(
            "--late-after",
            type=span,
            metavar="SPAN",
            help="How long a due job may wait until it is late.",
        ),
        *(
            click.option(f"--no-{name.replace('_', '-')}", is_flag=True, help=f"No {words}.")
            for name, words in NO_LIMIT_WORDS.items()
        ),
        field("--fair/--no-fair", help="Whether groups take turns; jobs without one as one."),
    )(command)


@queue.command("limit", epilog=LIMIT_EPILOG)
@click.argument("name")
@limit_options
@json_option
@with_client
def limit(connection: ConnectionOptions, *, name: str, as_json: bool, **values: Any) -> None:
    """Limit how many jobs of a queue, or of each group, run or start, over all workers.

    Limits not given stay unchanged. Without options the limits are shown.
    """
    body = limits_body(values)
    answer = connection.call("queue.limit", {"name": name}, body)
    if as_json:
        show_json(answer)
        return
    show_message(f"{answer['name']}: {limits_words(answer['limits']) or 'no limits'}")


def limits_body(values: Mapping[str, Any]) -> dict[str, Any]:
    gone = {name: None for name in LIMITS if values[f"no_{name}"]}
    fields = given_options(values, *LIMITS, "fair")
    for name in gone.keys() & fields.keys():
        flag = name.replace("_", "-")
        raise click.UsageError(f"give --{flag} or --no-{flag}, not both")
    return {**fields, **gone}
