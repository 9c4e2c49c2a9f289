"""`onbeat schedule diff`, `onbeat schedule occurrences`, and the files of schedules."""

from collections.abc import Mapping
from typing import Any

import click

from onbeat.cli.client import ConnectionOptions, json_option, with_client
from onbeat.cli.examples import examples
from onbeat.cli.options import field, limit_option
from onbeat.cli.output import plain, show_json, show_message, show_table, tell_cursor
from onbeat.cli.schedule_files import apply, export, is_file, prune_option, show_file_diff, shown
from onbeat.cli.schedules import change_options, changes_body, schedule, schedule_argument
from onbeat.cli.times import in_full, in_short, local_now, read_instant, utc_text
from onbeat.model.occurrence import OccurrenceOutcome

__all__ = ["apply", "diff", "export", "occurrences", "schedule"]


@schedule.command(
    "diff",
    epilog=examples(
        'onbeat schedule diff nightly --cron "30 2 * * *"',
        "onbeat schedule diff schedules.yaml --prune",
    ),
)
@click.argument("which", metavar="ID|KEY|FILE")
@change_options
@prune_option
@json_option
@with_client
def diff(
    connection: ConnectionOptions,
    *,
    which: str,
    clear: tuple[str, ...],
    prune: bool,
    as_json: bool,
    **values: Any,
) -> None:
    """Show what `schedule update` or `schedule apply` would change; changes nothing.

    FILE ends in .yaml, .yml or .json, or is `-` for standard input.
    """
    if is_file(which):
        if clear or any(values.values()):
            raise click.UsageError("a file says all that changes; give no other option")
        show_file_diff(connection, which, prune=prune, as_json=as_json)
        return
    if prune:
        raise click.UsageError("--prune needs a FILE")
    show_diff(connection, which, changes_body(values, clear), as_json=as_json)


def show_diff(
    connection: ConnectionOptions, which: str, changes: dict[str, Any], *, as_json: bool
) -> None:
    answer = connection.call_schedule("schedule.diff", which, body=changes)
    if as_json:
        show_json(answer)
        return
    rows = [
        (plain(one["field"]), shown(one["before"]), shown(one["after"]))
        for one in answer["changes"]
    ]
    show_table(("FIELD", "BEFORE", "AFTER"), rows, empty="it changes nothing")
    if answer["changes"]:
        show_message(diff_words(answer))
    for note in answer["notes"]:
        show_message(f"! {note}")


def diff_words(answer: Mapping[str, Any]) -> str:
    now = local_now()
    more = " at least" if answer.get("more") else ""
    before, after = answer["next_before"], answer["next_after"]
    moves = (
        "the next run stays"
        if before == after
        else f"the next run moves from {in_full(before, now)} to {in_full(after, now)}"
    )
    return f"It cancels{more} {answer['cancels']} jobs and plans {answer['plans']}; {moves}."


@schedule.command(
    "occurrences", epilog=examples("onbeat schedule occurrences nightly --disposition failed")
)
@schedule_argument
@click.option(
    "--disposition",
    type=click.Choice([one.value for one in OccurrenceOutcome]),
    metavar="NAME",
    help="Only those of which this became: ran, failed, skipped, ...",
)
@field("--from", "first", metavar="INSTANT", help="From here, included.")
@field("--to", "last", metavar="INSTANT", help="To here, included.")
@limit_option(20)
@click.option("--cursor", metavar="INSTANT", help="Go on where a page ended.")
@json_option
@with_client
def occurrences(
    connection: ConnectionOptions,
    *,
    which: str,
    disposition: str | None,
    first: str | None,
    last: str | None,
    limit: int,
    cursor: str | None,
    as_json: bool,
) -> None:
    """List what became of a schedule's occurrences and why, latest first."""
    named = {
        "disposition": disposition,
        "from": utc_text(read_instant(first, "--from")) if first else None,
        "to": utc_text(read_instant(last, "--to")) if last else None,
        "limit": limit,
        "cursor": cursor,
    }
    answer = connection.call_schedule("schedule.occurrences", which, named)
    if as_json:
        show_json(answer)
        return
    now = local_now()
    rows = [
        (
            plain(in_short(one["at"], now, seconds=True)),
            plain(one["disposition"]),
            plain(one.get("job_id", "")),
            plain(one.get("reason", "")),
        )
        for one in answer["occurrences"]
    ]
    show_table(("TIME", "BECAME", "JOB", "WHY"), rows, empty="no occurrences", whole=("TIME",))
    tell_cursor(answer)
