"""`onbeat failure`."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import click

from onbeat.cli.client import ConnectionOptions, json_option, with_client
from onbeat.cli.examples import examples
from onbeat.cli.option_types import span
from onbeat.cli.options import cursor_option, field, limit_option
from onbeat.cli.output import (
    heading,
    plain,
    show_json,
    show_message,
    show_record,
    show_table,
    styled_state,
)
from onbeat.cli.times import in_full, in_short, local_now
from onbeat.model.limits import FAULT_JOBS_MAX, FAULT_LISTED_JOBS_MAX, REPLAY_MAX

COUNTS: Final = ("ATTEMPTS", "FAILED", "WAITING")
TITLE_CHARS: Final = 60

replay_limit_option = limit_option(REPLAY_MAX, most=REPLAY_MAX)
dry_run_option = click.option("--dry-run", is_flag=True, help="Count, and change nothing.")
more_option = field("--cursor", metavar="CURSOR", help="Go on where the call before ended.")


@click.group()
def failure() -> None:
    """Failures that are alike, by fault: what failed, how often, and since when."""


@failure.command(
    "list",
    epilog=examples("onbeat failure list", "onbeat failure list --q Timeout --order count"),
)
@field("--q", metavar="TEXT", help="Part of the title or the task.")
@field("--queue", metavar="NAME", help="Only of this queue.")
@field("--task", metavar="NAME", help="Only of this task.")
@field("--since", metavar="INSTANT", help="Only what has failed since.")
@click.option(
    "--order",
    type=click.Choice(["last", "count", "first"]),
    default="last",
    show_default=True,
    help="Latest, most attempts, or newest fault first.",
)
@limit_option()
@cursor_option
@json_option
@with_client
def list_failures(connection: ConnectionOptions, *, as_json: bool, **values: Any) -> None:
    """List failures by fault, the latest first."""
    answer = connection.call("failure.list", values)
    if as_json:
        show_json(answer)
        return
    now = local_now()
    rows = [
        (
            plain(one["fault"]),
            plain(one["title"][:TITLE_CHARS]),
            plain(one["task"]),
            plain(one["attempts"]),
            counted(one["failed"], FAULT_LISTED_JOBS_MAX),
            counted(one["waiting"], FAULT_LISTED_JOBS_MAX),
            plain(in_short(one["last_at"], now)),
        )
        for one in answer["failures"]
    ]
    columns = ("FAULT", "ERROR", "TASK", *COUNTS, "LAST")
    show_table(columns, rows, empty="nothing has failed", right=COUNTS, whole=("FAULT",))
    if answer["cursor"]:
        show_message(f"{answer['total']} in all; see more with --cursor {answer['cursor']}")


def counted(count: int, most: int) -> str:
    return f"> {most:,}" if count > most else f"{count:,}"


@failure.command("show")
@click.argument("fault")
@json_option
@with_client
def show(connection: ConnectionOptions, *, fault: str, as_json: bool) -> None:
    """Show a fault with its newest jobs."""
    answer = connection.call("failure.show", {"fault": fault})
    if as_json:
        show_json(answer)
        return
    show_record(failure_fields(answer))
    heading("Newest jobs")
    now = local_now()
    rows = [
        (plain(job["id"]), styled_state(job["state"]), plain(in_short(job["run_at"], now)))
        for job in answer["jobs"]
    ]
    show_table(("ID", "STATE", "DUE"), rows, empty="none is kept")


def failure_fields(answer: Mapping[str, Any]) -> dict[str, str]:
    now = local_now()
    fields = {
        "fault": plain(answer["fault"]),
        "error": plain(answer["title"]),
        "task": plain(answer["task"]),
        "queue": plain(answer["queue"]),
        "raised in": plain(answer["place"]),
        "first": plain(in_full(answer["first_at"], now)),
        "last": plain(in_full(answer["last_at"], now)),
        "attempts": plain(answer["attempts"]),
        "failed for good": counted(answer["failed"], FAULT_JOBS_MAX),
        "waiting to retry": counted(answer["waiting"], FAULT_JOBS_MAX),
    }
    if answer["process"]:
        fields["first seen by"] = plain(process_text(answer["process"], now))
    if answer.get("operator_note"):
        note = answer["operator_note"]
        written = f"{note['text']} ({note['by']}, {in_full(note['at'], now)})"
        fields["operator's note"] = plain(written)
    for kind, shares in shares_of(answer):
        fields[kind] = plain(shares)
    if answer["silenced_until"]:
        fields["silenced until"] = plain(in_full(answer["silenced_until"], now))
        fields["note"] = plain(answer["note"])
    return fields


def process_text(process: Mapping[str, Any], now: datetime) -> str:
    release = f", release {process['release']}" if process["release"] else ""
    started = in_full(process["started_at"], now)
    return f"{process['host']}:{process['pid']}, started {started}{release}"


def shares_of(answer: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What its newest jobs have in common, by kind."""
    spread: Mapping[str, Sequence[Mapping[str, Any]]] = answer.get("spread") or {}
    for kind in ("by_queue", "by_worker", "by_label"):
        if spread.get(kind):
            counted = (f"{share['name']} ({share['jobs']})" for share in spread[kind])
            yield kind.replace("_", " "), ", ".join(counted)


@failure.command(
    "note",
    epilog=examples('onbeat failure note FAULT "the gateway is down: ticket 4711"'),
)
@click.argument("fault")
@click.argument("text")
@json_option
@with_client
def note(connection: ConnectionOptions, *, fault: str, text: str, as_json: bool) -> None:
    """Write a note about a fault for others who look; an empty TEXT deletes it."""
    answer = connection.call("failure.note", {"fault": fault}, {"text": text})
    if as_json:
        show_json(answer)
    else:
        show_message("noted" if answer["operator_note"] else "the note is deleted")


@failure.command(
    "silence",
    epilog=examples(
        'onbeat failure silence FAULT --for 2h --note "the gateway is down"',
        "onbeat failure silence FAULT --off",
    ),
)
@click.argument("fault")
@field("--for", "span", type=span, metavar="SPAN", help="For how long: 30m, 2h, 3d.")
@field("--until", metavar="INSTANT", help="Until when.")
@click.option("--off", is_flag=True, help="End it.")
@field("--note", metavar="TEXT", help="Why.")
@json_option
@with_client
def silence(
    connection: ConnectionOptions,
    *,
    fault: str,
    span: str | None,
    until: str | None,
    off: bool,
    note: str | None,
    as_json: bool,
) -> None:
    """Leave a fault out of what needs somebody, for a time. It is counted on."""
    if [span is not None, until is not None, off].count(True) != 1:
        raise click.UsageError("give one of --for, --until and --off")
    body: dict[str, Any] = {"for": span} if span is not None else {"until": until}
    answer = connection.call("failure.silence", {"fault": fault}, {**body, "note": note})
    if as_json:
        show_json(answer)
    elif answer["silenced_until"]:
        show_message(f"silenced until {in_full(answer['silenced_until'], local_now())}")
    else:
        show_message("no longer silenced")


@failure.command(
    "replay",
    epilog=examples(
        "onbeat failure replay FAULT --dry-run", "onbeat failure replay FAULT --limit 100"
    ),
)
@click.argument("fault")
@dry_run_option
@replay_limit_option
@more_option
@json_option
@with_client
def replay(connection: ConnectionOptions, *, fault: str, as_json: bool, **values: Any) -> None:
    """Retry the failed jobs of a fault, newest first."""
    answer = connection.call("failure.replay", {"fault": fault}, values)
    show_json(answer) if as_json else show_replayed(answer, "retried")


def show_replayed(answer: Mapping[str, Any], verb: str) -> None:
    would = "would be " if answer["dry_run"] else ""
    skipped = f", {answer['skipped']:,} skipped" if answer["skipped"] else ""
    show_message(f"{answer['done']:,} {would}{verb}{skipped}")
    if answer["more"]:
        show_message(f"there are more; go on with --cursor {answer['cursor']}")
