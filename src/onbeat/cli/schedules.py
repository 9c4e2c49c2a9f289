"""`onbeat schedule`."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import click

from onbeat.cli.bodies import (
    common_body,
    field,
    given,
    instants,
    job_options,
    options,
    retry_options,
    rule_body,
    rule_options,
    target_body,
    target_options,
)
from onbeat.cli.connection import Caller, Connection, connects, json_option
from onbeat.cli.examples import examples
from onbeat.cli.output import (
    done,
    json_text,
    plain,
    progress,
    show_json,
    show_record,
    show_table,
    styled,
)
from onbeat.cli.times import from_wire, in_full, in_short, present, read_instant, utc_text

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

PLAIN_FIELDS: Final = (
    "catch_up",
    "grace",
    "overlap",
    "jitter",
    "expires_after",
    "status",
    "key",
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
@connects
def add(connection: Connection, *, replace: bool, as_json: bool, **values: Any) -> None:
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
        answer = connection.ask("schedule.put", {"key": key}, body)
    else:
        answer = connection.ask("schedule.create", body=body)
    show_json(answer) if as_json else done(answer["id"])


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
@connects
def update(
    connection: Connection, *, id: str, clear: tuple[str, ...], as_json: bool, **values: Any
) -> None:
    """Change the given fields of a schedule; waiting jobs follow the new rule at once."""
    body = schedule_body(values) | {name.replace("-", "_"): None for name in clear}
    if not body:
        raise click.UsageError("nothing to change; name at least one field")
    answer = connection.ask("schedule.update", {"id": id}, body)
    show_json(answer) if as_json else done(answer["message"])


def schedule_body(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **given(values, "name", *PLAIN_FIELDS),
        **rule_body(values),
        **instants(values, "starts_at", "ends_at"),
        **target_body(values),
        **common_body(values),
    }


@schedule.command("list", epilog=examples("onbeat schedule list --status active --json"))
@field("--status", metavar="STATUS", help="Only active, paused or finished ones.")
@field("--q", metavar="TEXT", help="Only those with this in name or key.")
@click.option(
    "--limit", type=click.IntRange(1, 1_000), default=50, show_default=True, help="How many."
)
@click.option("--page", type=click.IntRange(1), default=1, show_default=True, help="From 1.")
@json_option
@connects
def list_schedules(connection: Connection, *, as_json: bool, **values: Any) -> None:
    """List schedules, newest first."""
    answer = connection.ask("schedule.list", values)
    if as_json:
        show_json(answer)
        return
    now = present()
    rows = [
        (
            plain(found["id"]),
            styled(found["status"]),
            plain(in_short(found["next_at"], now)),
            plain(found["name"]),
        )
        for found in answer["schedules"]
    ]
    show_table(("ID", "STATUS", "NEXT", "NAME"), rows, empty="no schedules")
    shown = (answer["page"] - 1) * answer["limit"] + len(rows)
    if rows and shown < answer["total"]:
        done(f"{shown} of {answer['total']}; see more with --page {answer['page'] + 1}")


@schedule.command("show")
@click.argument("id")
@json_option
@connects
def show(connection: Connection, *, id: str, as_json: bool) -> None:
    """Show a schedule, with its next occurrence."""
    answer = connection.ask("schedule.show", {"id": id})
    if as_json:
        show_json(answer)
    else:
        show_record(schedule_fields(answer, present()))


def schedule_fields(found: Mapping[str, Any], now: datetime) -> dict[str, str]:
    """What is known of a schedule, in the order in which people ask."""
    rule = next((kind for kind in ("rrule", "cron", "every", "at") if kind in found), "rule")
    fields = {
        "id": plain(found["id"]),
        "name": plain(found["name"]),
        "status": styled(found["status"]),
        "next": plain(in_full(found["next_at"], now)),
        rule: plain(found.get(rule)),
        "timezone": plain(found.get("timezone")),
        "target": json_text(found["target"]),
    }
    for name in ("starts_at", "ends_at", "anchor"):
        if name in found:
            fields[name] = plain(found[name])
    for name in ("catch_up", "grace", "overlap", "jitter", "dst_gap", "dst_fold", "timeout",
                 "queue", "priority", "expires_after", "key"):  # fmt: skip
        if name in found:
            fields[name] = plain(found[name])
    fields["retry"] = retry_words(found["retry"])
    if found["labels"]:
        fields["labels"] = plain(", ".join(f"{k}={v}" for k, v in found["labels"].items()))
    fields["created"] = plain(in_full(found["created_at"], now))
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
@connects
def events(
    connection: Connection, *, id: str, history: bool, limit: int, page: int, as_json: bool
) -> None:
    """List a schedule's occurrences: those that have not ended, or with --history the others."""
    operation = "schedule.events_history" if history else "schedule.events_pending"
    answer = connection.ask(operation, {"id": id, "limit": limit, "page": page})
    if as_json:
        show_json(answer)
        return
    now = present()
    rows = [
        (plain(event["_id"]), plain(in_short(event["run_time"], now)), last_word(event))
        for event in answer["events"]
    ]
    show_table(("ID", "TIME", "STATUS"), rows, empty="no occurrences", whole=("ID", "TIME"))


def last_word(event: Mapping[str, Any]) -> str:
    status: dict[str, Any] = event["status"][-1] if event["status"] else {}
    return plain(status.get("message") or status.get("status"))


@schedule.command("pause")
@click.argument("id")
@json_option
@connects
def pause(connection: Connection, *, id: str, as_json: bool) -> None:
    """Pause a schedule: its waiting jobs go, nothing new comes."""
    change(connection, "schedule.pause", id, as_json=as_json)


@schedule.command("resume")
@click.argument("id")
@json_option
@connects
def resume(connection: Connection, *, id: str, as_json: bool) -> None:
    """Resume a paused schedule from now on."""
    change(connection, "schedule.resume", id, as_json=as_json)


@schedule.command("delete")
@click.argument("id")
@json_option
@connects
def delete(connection: Connection, *, id: str, as_json: bool) -> None:
    """Delete a schedule and cancel its waiting jobs; its history stays readable."""
    change(connection, "schedule.delete", id, as_json=as_json)


def change(connection: Connection, operation: str, id: str, *, as_json: bool) -> None:
    answer = connection.ask(operation, {"id": id})
    show_json(answer) if as_json else done(answer["message"])


@schedule.command("trigger")
@click.argument("id")
@json_option
@connects
def trigger(connection: Connection, *, id: str, as_json: bool) -> None:
    """Run a schedule's target once now, beside its calendar. Prints the job's id."""
    answer = connection.ask("schedule.trigger", {"id": id})
    show_json(answer) if as_json else done(answer["job_id"])


@schedule.command(
    "backfill", epilog=examples("onbeat schedule backfill 0199… --from 2026-01-01 --to 2026-02-01")
)
@click.argument("id")
@click.option("--from", "first", required=True, metavar="INSTANT", help="From here, included.")
@click.option("--to", "last", metavar="INSTANT", help="To here, included.  [default: now]")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="At most so many occurrences.")
@json_option
@connects
def backfill(
    connection: Connection,
    *,
    id: str,
    first: str,
    last: str | None,
    limit: int | None,
    as_json: bool,
) -> None:
    """Run past occurrences that had no job. Repeating it adds nothing."""
    span = read_instant(first, "--from"), read_instant(last, "--to") if last else present()
    jobs = connection.run(lambda caller: backfilled(caller, id, span, limit))
    show_json({"jobs": jobs}) if as_json else done(f"{jobs} jobs added")


async def backfilled(
    caller: Caller, id: str, span: tuple[datetime, datetime], limit: int | None
) -> int:
    """Step by step, since a long span may hold more than one request may ask for."""
    first, last = span
    jobs, left = 0, limit
    with progress("occurrences", left) as advance:
        while first <= last and left != 0:
            step = BACKFILL_STEP if left is None else min(left, BACKFILL_STEP)
            body = {"from": utc_text(first), "to": utc_text(last), "limit": step}
            answer = await caller.call("schedule.backfill", {"id": id}, body)
            jobs += answer["jobs"]
            advance(step if "through" in answer else answer["jobs"])
            if "through" not in answer:
                break
            left = None if left is None else left - step
            # The span's ends are included, and no two occurrences share an instant.
            first = from_wire(answer["through"]) + timedelta(microseconds=1)
    return jobs
