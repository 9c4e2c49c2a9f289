"""`onbeat schedule`."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import click

from onbeat.cli.client import Client, ConnectionOptions, json_option, with_client
from onbeat.cli.examples import examples
from onbeat.cli.options import (
    field,
    given_options,
    instants,
    job_options,
    options,
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
    styled_state,
)
from onbeat.cli.times import from_wire, in_full, in_short, local_now, read_instant, utc_text
from onbeat.model.schedule import ScheduleSpec

BACKFILL_STEP: Final = 1_000

policy_options = options(
    field("--starts-at", metavar="INSTANT", help="Nothing before this."),
    field("--ends-at", metavar="INSTANT", help="Nothing after this."),
    field("--catch-up", metavar="HOW", help="Late occurrences that still run: latest, all, none."),
    field("--grace", metavar="SPAN", help="How late an occurrence may start on time."),
    field(
        "--overlap",
        metavar="HOW",
        help="While an earlier job is unfinished: allow, skip, wait, replace.",
    ),
    field("--jitter", metavar="SPAN", help="Start at random within this span."),
    field("--expires-after", metavar="SPAN", help="Give a job up that has not started by then."),
    field("--status", metavar="STATUS", help="active or paused."),
)

CLEARABLE: Final = (
    "timezone", "starts_at", "ends_at", "catch_up", "grace", "overlap", "jitter", "retry",
    "timeout", "queue", "priority", "expires_after", "key", "labels", "headers", "body",
)  # fmt: skip


@click.group()
def schedule() -> None:
    """Schedules: standing instructions that yield jobs."""


ADD_EPILOG: Final = """\b
Examples:
  onbeat schedule add nightly --cron "0 3 * * *" --tz Europe/Berlin \\
      --task reports.build
  onbeat schedule add ping --every 15m --url https://api.example.com/hook \\
      --method POST --header "X-From: onbeat" --body '{"n": 1}'
  onbeat schedule add pay --rrule "FREQ=MONTHLY;BYDAY=-1FR" --task pay.all
  onbeat schedule add launch --at 2027-01-31T09:00 --tz UTC --task launch \\
      --key launch --replace"""


@schedule.command("add", epilog=ADD_EPILOG)
@click.argument("name")
@rule_options
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
    if not any(rule in body for rule in ("rrule", "cron", "every", "at")):
        raise click.UsageError("a schedule needs a rule: --rrule, --cron, --every or --at")
    if "target" not in body:
        raise click.UsageError("a schedule needs a target: --url or --task")
    if replace and not values["key"]:
        raise click.UsageError("--replace needs a --key")
    if replace:
        key = body.pop("key")
        answer = connection.call("schedule.put", {"key": key}, body)
    else:
        answer = connection.call("schedule.create", body=body)
    show_json(answer) if as_json else show_message(answer["id"])


@schedule.command(
    "update", epilog=examples('onbeat schedule update 0199… --cron "30 2 * * *" --clear ends-at')
)
@click.argument("id")
@field("--name", metavar="NAME", help="Another name.")
@rule_options
@target_options
@policy_options
@job_options
@retry_options
@field("--key", metavar="KEY", help="Unique name.")
@click.option(
    "--clear",
    multiple=True,
    type=click.Choice([name.replace("_", "-") for name in CLEARABLE]),
    metavar="FIELD",
    help="Take a field back to its default. Repeat for several.",
)
@json_option
@with_client
def update(
    connection: ConnectionOptions, *, id: str, clear: tuple[str, ...], as_json: bool, **values: Any
) -> None:
    """Change the given fields of a schedule; waiting jobs follow the new rule at once."""
    body = schedule_body(values) | {name.replace("-", "_"): None for name in clear}
    if not body:
        raise click.UsageError("nothing to change; name at least one field")
    answer = connection.call("schedule.update", {"id": id}, body)
    show_json(answer) if as_json else show_message(answer["message"])


def schedule_body(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **given_options(values, "status"),
        **rule_body(values),
        **instants(values, "starts_at", "ends_at"),
        **target_body(values),
        **spec_body(values, ScheduleSpec),
    }


@schedule.command("list", epilog=examples("onbeat schedule list --status active --json"))
@field("--status", metavar="STATUS", help="Only active, paused or finished ones.")
@field("--q", metavar="TEXT", help="Only those with this in name or key.")
@click.option(
    "--limit", type=click.IntRange(1, 1_000), default=50, show_default=True, help="How many."
)
@click.option("--page", type=click.IntRange(1), default=1, show_default=True, help="From 1.")
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
            plain(result["name"]),
        )
        for result in answer["schedules"]
    ]
    show_table(("ID", "STATUS", "NEXT", "NAME"), rows, empty="no schedules")
    shown = (answer["page"] - 1) * answer["limit"] + len(rows)
    if rows and shown < answer["total"]:
        show_message(f"{shown} of {answer['total']}; see more with --page {answer['page'] + 1}")


@schedule.command("show")
@click.argument("id")
@json_option
@with_client
def show(connection: ConnectionOptions, *, id: str, as_json: bool) -> None:
    """Show a schedule, with its next occurrence."""
    answer = connection.call("schedule.show", {"id": id})
    if as_json:
        show_json(answer)
    else:
        show_record(schedule_fields(answer, local_now()))


def schedule_fields(result: Mapping[str, Any], now: datetime) -> dict[str, str]:
    """The fields of a schedule, most wanted first."""
    rule = next((kind for kind in ("rrule", "cron", "every", "at") if kind in result), "rule")
    fields = {
        "id": plain(result["id"]),
        "name": plain(result["name"]),
        "status": styled_state(result["status"]),
        "next": plain(in_full(result["next_at"], now)),
        rule: plain(result.get(rule)),
        "timezone": plain(result.get("timezone")),
        "target": json_text(result["target"]),
    }
    for name in ("starts_at", "ends_at", "anchor"):
        if name in result:
            fields[name] = plain(result[name])
    for name in ("catch_up", "grace", "overlap", "jitter", "dst_gap", "dst_fold", "timeout",
                 "queue", "priority", "expires_after", "key"):  # fmt: skip
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


@schedule.command("events")
@click.argument("id")
@click.option("--history", is_flag=True, help="Those that have ended, instead of those to come.")
@click.option(
    "--limit", type=click.IntRange(1, 1_000), default=20, show_default=True, help="How many."
)
@click.option("--page", type=click.IntRange(1), default=1, show_default=True, help="From 1.")
@json_option
@with_client
def events(
    connection: ConnectionOptions, *, id: str, history: bool, limit: int, page: int, as_json: bool
) -> None:
    """List a schedule's occurrences: those that have not ended, or with --history the others."""
    operation = "schedule.events_history" if history else "schedule.events_pending"
    answer = connection.call(operation, {"id": id, "limit": limit, "page": page})
    if as_json:
        show_json(answer)
        return
    now = local_now()
    rows = [
        (plain(event["_id"]), plain(in_short(event["run_time"], now)), last_status(event))
        for event in answer["events"]
    ]
    show_table(("ID", "TIME", "STATUS"), rows, empty="no occurrences", whole=("ID", "TIME"))


def last_status(event: Mapping[str, Any]) -> str:
    status: dict[str, Any] = event["status"][-1] if event["status"] else {}
    return plain(status.get("message") or status.get("status"))


@schedule.command("pause")
@click.argument("id")
@json_option
@with_client
def pause(connection: ConnectionOptions, *, id: str, as_json: bool) -> None:
    """Pause a schedule: its waiting jobs are removed, and no new ones planned."""
    change(connection, "schedule.pause", id, as_json=as_json)


@schedule.command("resume")
@click.argument("id")
@json_option
@with_client
def resume(connection: ConnectionOptions, *, id: str, as_json: bool) -> None:
    """Resume a paused schedule from now on."""
    change(connection, "schedule.resume", id, as_json=as_json)


@schedule.command("delete")
@click.argument("id")
@json_option
@with_client
def delete(connection: ConnectionOptions, *, id: str, as_json: bool) -> None:
    """Delete a schedule and cancel its waiting jobs; its history stays readable."""
    change(connection, "schedule.delete", id, as_json=as_json)


def change(connection: ConnectionOptions, operation: str, id: str, *, as_json: bool) -> None:
    answer = connection.call(operation, {"id": id})
    show_json(answer) if as_json else show_message(answer["message"])


@schedule.command("trigger")
@click.argument("id")
@json_option
@with_client
def trigger(connection: ConnectionOptions, *, id: str, as_json: bool) -> None:
    """Run a schedule's target once now, independent of its rule. Prints the job's id."""
    answer = connection.call("schedule.trigger", {"id": id})
    show_json(answer) if as_json else show_message(answer["job_id"])


@schedule.command(
    "backfill", epilog=examples("onbeat schedule backfill 0199… --from 2026-01-01 --to 2026-02-01")
)
@click.argument("id")
@click.option("--from", "first", required=True, metavar="INSTANT", help="From here, included.")
@click.option("--to", "last", metavar="INSTANT", help="To here, included.  [default: now]")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="At most so many occurrences.")
@json_option
@with_client
def backfill(
    connection: ConnectionOptions,
    *,
    id: str,
    first: str,
    last: str | None,
    limit: int | None,
    as_json: bool,
) -> None:
    """Run past occurrences that had no job. Repeating it adds nothing."""
    span = read_instant(first, "--from"), read_instant(last, "--to") if last else local_now()
    jobs = connection.run(lambda client: backfill_in_steps(client, id, span, limit))
    show_json({"jobs": jobs}) if as_json else show_message(f"{jobs} jobs added")


async def backfill_in_steps(
    client: Client, id: str, span: tuple[datetime, datetime], limit: int | None
) -> int:
    """In several requests, because a long span may exceed the limit of one."""
    first, last = span
    jobs, left = 0, limit
    with progress("occurrences", left) as advance:
        while first <= last and left != 0:
            step = BACKFILL_STEP if left is None else min(left, BACKFILL_STEP)
            body = {"from": utc_text(first), "to": utc_text(last), "limit": step}
            answer = await client.call("schedule.backfill", {"id": id}, body)
            jobs += answer["jobs"]
            advance(step if "through" in answer else answer["jobs"])
            if "through" not in answer:
                break
            left = None if left is None else left - step
            # The span's ends are included, and no two occurrences share an instant.
            first = from_wire(answer["through"]) + timedelta(microseconds=1)
    return jobs
