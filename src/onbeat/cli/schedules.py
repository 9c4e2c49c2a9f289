"""`onbeat schedule`."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import click

from onbeat.cli.client import Client, ConnectionOptions, json_option, with_client
from onbeat.cli.examples import examples
from onbeat.cli.option_types import CATCH_UP, NEW_STATUS, OVERLAP, STATUS, span
from onbeat.cli.options import (
    field,
    given_options,
    instants,
    job_options,
    limit_option,
    options,
    page_option,
    reaction_body,
    reaction_options,
    retry_options,
    rule_body,
    rule_options,
    spec_body,
    target_body,
    target_options,
)
from onbeat.cli.output import (
    json_text,
    plain,
    progress,
    show_json,
    show_message,
    show_record,
    show_table,
    show_with_last,
    styled_state,
    tell_page,
    warn_of_unknown_tasks,
)
from onbeat.cli.times import from_wire, in_full, in_short, local_now, read_instant, utc_text
from onbeat.model.limits import BACKFILL_MAX, PREVIEW_MAX
from onbeat.model.schedule import ScheduleSpec

BACKFILL_STEP: Final = 1_000

policy_options = options(
    field("--starts-at", metavar="INSTANT", help="Nothing before this."),
    field("--ends-at", metavar="INSTANT", help="Nothing after this."),
    field(
        "--catch-up",
        type=CATCH_UP,
        metavar="HOW",
        help="Late occurrences that still run: latest, all, none.",
    ),
    field("--grace", type=span, metavar="SPAN", help="How late an occurrence may start on time."),
    field(
        "--overlap",
        type=OVERLAP,
        metavar="HOW",
        help="While an earlier job is unfinished: allow, skip, wait, replace.",
    ),
    field("--jitter", type=span, metavar="SPAN", help="Start at random within this span."),
    field(
        "--expires-after",
        type=span,
        metavar="SPAN",
        help="Give a job up that has not started by then.",
    ),
    field("--status", type=NEW_STATUS, metavar="STATUS", help="active or paused."),
)

CLEARABLE: Final = (
    "cancel_on", "gather", "delay",
    "condition", "window", "sensitive",
    "timezone", "starts_at", "ends_at", "catch_up", "grace", "overlap", "jitter", "retry",
    "timeout", "queue", "priority", "expires_after", "key", "labels", "headers", "body",
)  # fmt: skip


schedule_argument = click.argument("which", metavar="ID|KEY")


@click.group()
def schedule() -> None:
    """Schedules: standing instructions that yield jobs.

    A schedule is named by its id (a UUID, or 24 or 32 hexadecimal digits) or by its key.
    """


ADD_EPILOG: Final = """\b
Examples:
  onbeat schedule add nightly --cron "0 3 * * *" --tz Europe/Berlin \\
      --task reports.build
  onbeat schedule add ping --every 15m --url https://api.example.com/hook \\
      --method POST --header "X-From: onbeat" --body '{"n": 1}'
  onbeat schedule add pay --rrule "FREQ=MONTHLY;BYDAY=-1FR" --task pay.all
  onbeat schedule add backup --cron "0 2 * * *" \\
      --command -- /usr/bin/backup --all
  onbeat schedule add launch --at 2027-01-31T09:00 --tz UTC --task launch \\
      --key launch --replace
  onbeat schedule add unpaid --on order.placed --by event.data.order \\
      --delay 10m --cancel-on order.paid --task orders.remind"""


@schedule.command("add", epilog=ADD_EPILOG)
@click.argument("name")
@rule_options
@reaction_options
@target_options
@policy_options
@job_options
@retry_options
@field("--key", metavar="KEY", help="Unique name; a second schedule with it is refused.")
@click.option(
    "--replace", is_flag=True, help="Make the schedule with this --key as described here."
)
@json_option
@with_client
def add(connection: ConnectionOptions, *, replace: bool, as_json: bool, **values: Any) -> None:
    """Add a schedule: NAME, one rule, one target.

    Instants without an offset are in --tz, else in this machine's zone.
    """
    body = schedule_body(values)
    if not any(rule in body for rule in ("rrule", "cron", "every", "at", "on")):
        raise click.UsageError("a schedule needs a rule: --rrule, --cron, --every, --at or --on")
    if "target" not in body:
        raise click.UsageError("a schedule needs a target: --url or --task, or --command")
    if replace and not values["key"]:
        raise click.UsageError("--replace needs a --key")
    if replace:
        key = body.pop("key")
        answer = connection.call("schedule.put", {"key": key}, body)
    else:
        answer = connection.call("schedule.create", body=body)
    warn_of_unknown_tasks(answer)
    show_json(answer) if as_json else show_message(answer["id"])


change_options = options(
    field("--name", metavar="NAME", help="Another name."),
    rule_options,
    reaction_options,
    target_options,
    policy_options,
    job_options,
    retry_options,
    field("--key", metavar="KEY", help="Unique name."),
    click.option(
        "--clear",
        multiple=True,
        type=click.Choice([name.replace("_", "-") for name in CLEARABLE]),
        metavar="FIELD",
        help="Take a field back to its default. Repeat for several.",
    ),
)


@schedule.command(
    "update", epilog=examples('onbeat schedule update 0199… --cron "30 2 * * *" --clear ends-at')
)
@schedule_argument
@change_options
@json_option
@with_client
def update(
    connection: ConnectionOptions,
    *,
    which: str,
    clear: tuple[str, ...],
    as_json: bool,
    **values: Any,
) -> None:
    """Change the given fields of a schedule; waiting jobs follow the new rule at once."""
    body = changes_body(values, clear)
    answer = connection.call_schedule("schedule.update", which, body=body)
    show_json(answer) if as_json else show_message(answer["message"])


def changes_body(values: Mapping[str, Any], clear: tuple[str, ...]) -> dict[str, Any]:
    body = schedule_body(values) | {name.replace("-", "_"): None for name in clear}
    if not body:
        raise click.UsageError("nothing to change; name at least one field")
    return body


def schedule_body(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **given_options(values, "status"),
        **rule_body(values),
        **instants(values, "starts_at", "ends_at"),
        **target_body(values),
        **spec_body(values, ScheduleSpec),
        **reaction_body(values),
    }


@schedule.command("list", epilog=examples("onbeat schedule list --status active --json"))
@field("--status", type=STATUS, metavar="STATUS", help="Only active, paused or finished ones.")
@field("--q", metavar="TEXT", help="Only those with this in name or key.")
@limit_option()
@page_option
@json_option
@with_client
def list_schedules(connection: ConnectionOptions, *, as_json: bool, **values: Any) -> None:
    """List schedules, newest first."""
    answer = connection.call("schedule.list", values)
    if as_json:
        show_json(answer)
        return
    now = local_now()
    rows = [
        (
            plain(result["id"]),
            styled_state(result["status"]),
            plain(in_short(result["next_at"], now)),
        )
        for result in answer["schedules"]
    ]
    names = [plain(result["name"]) for result in answer["schedules"]]
    show_with_last(("ID", "STATUS", "NEXT", "NAME"), rows, names, empty="no schedules")
    tell_page(answer, len(rows), answer["total"])


@schedule.command("show")
@schedule_argument
@json_option
@with_client
def show(connection: ConnectionOptions, *, which: str, as_json: bool) -> None:
    """Show a schedule, with its next occurrence."""
    answer = connection.call_schedule("schedule.show", which)
    if as_json:
        show_json(answer)
    else:
        show_record(schedule_fields(answer, local_now()))


def schedule_fields(result: Mapping[str, Any], now: datetime) -> dict[str, str]:
    """The fields of a schedule, most wanted first."""
    rule = next((kind for kind in ("rrule", "cron", "every", "at") if kind in result), "rule")
    reaction = {name: result[name] for name in ("on", "cancel_on", "gather") if name in result}
    fields = {
        "id": plain(result["id"]),
        "name": plain(result["name"]),
        "status": styled_state(result["status"]),
        "next": plain(in_full(result["next_at"], now)),
        **({} if "on" in result else {rule: plain(result.get(rule))}),
        **{name: json_text(value) for name, value in reaction.items()},
        "timezone": plain(result.get("timezone")),
        "target": json_text(result["target"]),
    }
    for name in ("starts_at", "ends_at", "anchor"):
        if name in result:
            fields[name] = plain(result[name])
    for name in ("catch_up", "grace", "overlap", "jitter", "dst_gap", "dst_fold", "timeout",
                 "queue", "priority", "expires_after", "delay", "key", "owner", "release",
                 "pause_reason"):  # fmt: skip
        if name in result:
            fields[name] = plain(result[name])
    fields["retry"] = retry_words(result["retry"])
    if result["labels"]:
        fields["labels"] = plain(", ".join(f"{k}={v}" for k, v in result["labels"].items()))
    fields["created"] = plain(in_full(result["created_at"], now))
    return fields


def retry_words(retry: Mapping[str, Any]) -> str:
    jitter = ", with jitter" if retry["jitter"] else ""
    return plain(
        f"{retry['attempts_max']} tries, {retry['backoff']} from {retry['delay']}"
        f" to {retry['delay_max']}{jitter}"
    )


@schedule.command("preview", epilog=examples("onbeat schedule preview nightly --count 3"))
@schedule_argument
@click.option(
    "-n",
    "--count",
    type=click.IntRange(1, PREVIEW_MAX),
    default=10,
    show_default=True,
    help="How many.",
)
@json_option
@with_client
def preview(connection: ConnectionOptions, *, which: str, count: int, as_json: bool) -> None:
    """Show the next occurrences of a schedule, and what is odd about them."""
    answer = connection.call_schedule("schedule.preview", which, {"count": count})
    if as_json:
        show_json(answer)
        return
    show_message(answer["description"])
    now = local_now()
    rows = [(plain(in_full(text, now)), plain(text)) for text in answer["occurrences"]]
    show_table(("LOCAL TIME", "UTC"), rows, empty="no occurrence to come", whole=("UTC",))
    for note in answer["notes"]:
        show_message(f"! {note}")


@schedule.command("events")
@schedule_argument
@click.option("--history", is_flag=True, help="Those that have ended, instead of those to come.")
@limit_option(20)
@page_option
@json_option
@with_client
def events(
    connection: ConnectionOptions,
    *,
    which: str,
    history: bool,
    limit: int,
    page: int,
    as_json: bool,
) -> None:
    """List a schedule's occurrences: those that have not ended, or with --history the others."""
    operation = "schedule.events_history" if history else "schedule.events_pending"
    answer = connection.call_schedule(operation, which, {"limit": limit, "page": page})
    if as_json:
        show_json(answer)
        return
    now = local_now()
    rows = [
        (
            plain(event["_id"]),
            plain(in_short(event["run_time"], now, seconds=True)),
            last_status(event),
        )
        for event in answer["events"]
    ]
    show_table(("ID", "TIME", "STATUS"), rows, empty="no occurrences", whole=("ID", "TIME"))


def last_status(event: Mapping[str, Any]) -> str:
    """The name of the status, with the error or reason that its message may end with."""
    last: dict[str, Any] = event["status"][-1] if event["status"] else {}
    why = last.get("message", "").partition(": ")[2]
    return plain(": ".join(filter(None, (last.get("status"), why))))


@schedule.command("pause")
@schedule_argument
@json_option
@with_client
def pause(connection: ConnectionOptions, *, which: str, as_json: bool) -> None:
    """Pause a schedule: its waiting jobs are removed, and no new ones planned."""
    change(connection, "schedule.pause", which, as_json=as_json)


@schedule.command("resume")
@schedule_argument
@json_option
@with_client
def resume(connection: ConnectionOptions, *, which: str, as_json: bool) -> None:
    """Resume a paused schedule from now on."""
    change(connection, "schedule.resume", which, as_json=as_json)


@schedule.command("delete")
@schedule_argument
@json_option
@with_client
def delete(connection: ConnectionOptions, *, which: str, as_json: bool) -> None:
    """Delete a schedule and cancel its waiting jobs; its history stays readable."""
    change(connection, "schedule.delete", which, as_json=as_json)


def change(connection: ConnectionOptions, operation: str, which: str, *, as_json: bool) -> None:
    answer = connection.call_schedule(operation, which)
    show_json(answer) if as_json else show_message(answer["message"])


@schedule.command("trigger")
@schedule_argument
@json_option
@with_client
def trigger(connection: ConnectionOptions, *, which: str, as_json: bool) -> None:
    """Run a schedule's target once now, independent of its rule. Prints the job's id."""
    answer = connection.call_schedule("schedule.trigger", which)
    show_json(answer) if as_json else show_message(answer["job_id"])


@schedule.command(
    "backfill", epilog=examples("onbeat schedule backfill 0199… --from 2026-01-01 --to 2026-02-01")
)
@schedule_argument
@click.option("--from", "first", required=True, metavar="INSTANT", help="From here, included.")
@click.option("--to", "last", metavar="INSTANT", help="To here, included.  [default: now]")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="At most so many occurrences.")
@click.option("--dry-run", is_flag=True, help="Count the jobs that it would add, and add none.")
@json_option
@with_client
def backfill(
    connection: ConnectionOptions,
    *,
    which: str,
    first: str,
    last: str | None,
    limit: int | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Run past occurrences that had no job. Repeating it adds nothing."""
    span = read_instant(first, "--from"), read_instant(last, "--to") if last else local_now()
    if dry_run:
        count_backfill(connection, which, span, limit, as_json=as_json)
        return
    jobs = connection.run(lambda client: backfill_in_steps(client, which, span, limit))
    show_json({"jobs": jobs}) if as_json else show_message(f"{jobs} jobs added")


def count_backfill(
    connection: ConnectionOptions,
    which: str,
    span: tuple[datetime, datetime],
    limit: int | None,
    *,
    as_json: bool,
) -> None:
    bounds = {"from": utc_text(span[0]), "to": utc_text(span[1]), "dry_run": True}
    body = {**bounds, "limit": min(limit or BACKFILL_MAX, BACKFILL_MAX)}
    answer = connection.call_schedule("schedule.backfill", which, {}, body)
    if as_json:
        show_json(answer)
        return
    more = " or more" if answer["more"] else ""
    show_message(
        f"{answer['jobs']}{more} jobs would be added; {answer['exist']} exist already,"
        f" {answer['skipped']} of the new ones were skipped before"
    )


async def backfill_in_steps(
    client: Client, which: str, span: tuple[datetime, datetime], limit: int | None
) -> int:
    """In several requests, because a long span may exceed the limit of one."""
    first, last = span
    left = limit
    jobs: int = 0
    with progress("occurrences", left) as advance:
        while True:  # at least once: a wrong span and an unknown schedule are refused
            step = BACKFILL_STEP if left is None else min(left, BACKFILL_STEP)
            body = {"from": utc_text(first), "to": utc_text(last), "limit": step}
            answer = await client.call_schedule("schedule.backfill", which, {}, body)
            jobs += answer["jobs"]
            advance(step if "through" in answer else answer["jobs"])
            if "through" not in answer:
                break
            left = None if left is None else left - step
            # The span's ends are included, and no two occurrences share an instant.
            first = from_wire(answer["through"]) + timedelta(microseconds=1)
            if first > last or left == 0:
                break
    return jobs
