"""`onbeat job bulk` and `onbeat bulk`: one action on all jobs that match."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from onbeat.cli.client import Client, ConnectionOptions, json_option, with_client
from onbeat.cli.examples import examples
from onbeat.cli.job_filters import filters_of, job_filter_options
from onbeat.cli.option_types import span
from onbeat.cli.options import cursor_option, field, given_options, instants, limit_option
from onbeat.cli.output import (
    json_text,
    plain,
    progress,
    show_json,
    show_message,
    show_record,
    show_table,
    styled_state,
    tell_cursor,
)
from onbeat.cli.times import in_full, in_short, local_now

LOOK_AGAIN: Final = 0.5
OVER: Final = frozenset({"done", "stopped"})
ACTIONS: Final = ("retry", "cancel", "reschedule")
COUNTS: Final = ("done", "skipped", "failed")
WAIT_HELP: Final = "Wait for its end.  [default: on a terminal]"


@click.command(
    "bulk",
    epilog=examples(
        "onbeat job bulk retry --task 'billing.*' --since 2h --dry-run",
        "onbeat job bulk cancel --label run:2026-11 --yes",
        "onbeat job bulk reschedule --queue mail --delay 2h",
    ),
)
@click.argument("do", metavar="|".join(ACTIONS), type=click.Choice(ACTIONS))
@job_filter_options
@click.option("--id", "ids", multiple=True, metavar="ID", help="Only this job; repeat for several.")
@field("--run-at", metavar="INSTANT", help="For a rescheduling: when they are due.")
@field("--delay", type=span, metavar="SPAN", help="The same, as how long from now; 0s for at once.")
@click.option("--dry-run", is_flag=True, help="Only count.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--wait/--no-wait", default=None, help=WAIT_HELP)
@json_option
@with_client
def job_bulk(
    connection: ConnectionOptions,
    *,
    do: str,
    ids: Sequence[str],
    dry_run: bool,
    yes: bool,
    wait: bool | None,
    as_json: bool,
    **values: Any,
) -> None:
    """Retry, cancel or reschedule all jobs that match.

    They are counted first, and it goes on in the background. A retry is of failed jobs and a cancel
    of waiting ones, unless --state says otherwise; a rescheduling is of waiting ones.
    """
    due = {**given_options(values, "delay"), **instants(values, "run_at")}
    if do == "reschedule" and not due:
        raise click.UsageError("say when they are due: --run-at or --delay")
    where = {**filters_of(values), **({"ids": ids} if ids else {})}
    body = {"do": do, "where": where, **due}
    counted = connection.call("job.bulk", None, {**body, "dry_run": True})
    if dry_run:
        show_json(counted) if as_json else show_count(counted)
        return
    if not yes:
        confirm(counted)
    upto = {"upto": counted["upto"]} if counted["upto"] else {}
    made = connection.call("job.bulk", None, {**body, **upto})
    is_awaited = sys.stderr.isatty() if wait is None else wait
    if is_awaited:
        made = connection.run(lambda client: watch(client, made["id"], made["count"]))
    if as_json:
        show_json(made)
        return
    show_message(end_words(made) if is_awaited else f"{made['id']} begins with {words(made)}")


def show_count(counted: Mapping[str, Any]) -> None:
    show_message(words(counted))
    now = local_now()
    for job in counted["sample"]:
        at = in_short(job["finished_at"] or job["run_at"], now)
        show_message(f"  {job['id']} {job['target'].get('task', '')} {at}")


def words(counted: Mapping[str, Any]) -> str:
    """`38 failed jobs`."""
    ((state, count),) = counted["states"].items()
    return f"{'more than ' if counted['more'] else ''}{count:,} {state} jobs"


def confirm(counted: Mapping[str, Any]) -> None:
    question = f"{counted['do']} {words(counted)}?"
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} Give --yes, or look with --dry-run first")
    click.confirm(question, abort=True)


async def watch(client: Client, id: str, total: int) -> dict[str, Any]:
    """Show how far it is until it has ended."""
    seen = 0
    with progress("jobs", total) as advance:
        while True:
            found: dict[str, Any] = await client.call("bulk.show", {"id": id})
            met = sum(found[name] for name in COUNTS)
            advance(met - seen)
            seen = met
            if found["state"] in OVER:
                return found
            await asyncio.sleep(LOOK_AGAIN)


def end_words(found: Mapping[str, Any]) -> str:
    counts = ", ".join(
        f"{found[name]:,} {name}" for name in COUNTS if found[name] or name == "done"
    )
    return f"{found['id']} {found['state']}: {counts}"


@click.group()
def bulk() -> None:
    """Bulks: one action on all jobs that match, made by `onbeat job bulk`."""


@bulk.command("list")
@limit_option()
@cursor_option
@json_option
@with_client
def list_bulks(connection: ConnectionOptions, *, as_json: bool, **values: Any) -> None:
    """List bulks, newest first."""
    answer = connection.call("bulk.list", values)
    if as_json:
        show_json(answer)
        return
    now = local_now()
    rows = [
        (
            plain(one["id"]),
            plain(one["do"]),
            styled_state(one["state"]),
            plain(f"{one['done']:,} of {one['counted']:,}"),
            plain(in_short(one["created_at"], now)),
            plain(one["made_by"]),
        )
        for one in answer["bulks"]
    ]
    show_table(("ID", "DO", "STATE", "DONE", "MADE", "BY"), rows, empty="no bulks")
    tell_cursor(answer)


@bulk.command("show")
@click.argument("id")
@json_option
@with_client
def show(connection: ConnectionOptions, *, id: str, as_json: bool) -> None:
    """Show how far a bulk is."""
    answer = connection.call("bulk.show", {"id": id})
    if as_json:
        show_json(answer)
        return
    now = local_now()
    fields = {name: plain(f"{answer[name]:,}") for name in ("counted", *COUNTS)}
    times = {
        name.removesuffix("_at"): plain(in_full(answer[name], now))
        for name in ("created_at", "starts_at", "finished_at")
        if answer[name]
    }
    if answer.get("run_at"):
        times["due"] = plain(in_full(answer["run_at"], now))
    show_record(
        {
            "id": plain(answer["id"]),
            "do": plain(answer["do"]),
            "state": styled_state(answer["state"]),
            "where": json_text(answer["where"]),
            **fields,
            "by": plain(answer["made_by"]),
            **times,
        }
    )


@bulk.command("stop")
@click.argument("id")
@json_option
@with_client
def stop(connection: ConnectionOptions, *, id: str, as_json: bool) -> None:
    """Stop a bulk. What it has done stays."""
    answer = connection.call("bulk.stop", {"id": id})
    show_json(answer) if as_json else show_message(end_words(answer))
