"""`onbeat job`."""

import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import islice
from typing import Any, Final, TextIO

import click
import msgspec

from onbeat.cli.awaited_job import NO_LIMIT, add_and_wait, read_patience
from onbeat.cli.bulks import job_bulk
from onbeat.cli.client import Client, ConnectionOptions, json_option, with_client
from onbeat.cli.examples import examples
from onbeat.cli.exit_codes import OK
from onbeat.cli.job_filters import filters_of, job_filter_options
from onbeat.cli.option_types import span, span_or_always
from onbeat.cli.options import (
    cursor_option,
    field,
    given_options,
    instants,
    job_options,
    limit_option,
    retry_options,
    spec_body,
    target_body,
    target_options,
)
from onbeat.cli.output import (
    heading,
    json_text,
    plain,
    progress,
    show_json,
    show_message,
    show_record,
    show_table,
    show_with_last,
    styled_state,
    tell_cursor,
    warn_of_unknown_tasks,
)
from onbeat.cli.times import in_full, in_short, local_now
from onbeat.model.errors import Invalid, OnbeatError
from onbeat.model.job import JobSpec

CHUNK: Final = 1_000
SHORT_FIELDS: Final = (
    "queue",
    "group",
    "priority",
    "reason",
    "unique",
    "schedule_id",
    "cancel_reason",
)
TIMES: Final = ("created_at", "started_at", "finished_at", "expires_at", "occurrence")


@click.group()
def job() -> None:
    """Jobs: pieces of work, each due once."""


job.add_command(job_bulk)


ADD_EPILOG: Final = """\b
Examples:
  onbeat job add --task mail.welcome --args '[7]' --kwargs '{"lang": "de"}'
  onbeat job add --url https://api.example.com/hook --method POST \\
      --body @order.json --delay 10m
  onbeat job add --task report --run-at 2027-01-31T09:00 --unique report:jan
  onbeat job add --command -- /usr/bin/backup --all
  onbeat job add --file jobs.jsonl   (one job a line, as in POST /api/jobs)"""


@job.command("add", epilog=ADD_EPILOG)
@target_options
@field("--run-at", metavar="INSTANT", help="When it is due.  [default: now]")
@field("--delay", type=span, metavar="SPAN", help="How long from now it is due.")
@field("--expires-at", metavar="INSTANT", help="Give it up if it has not started by then.")
@field("--unique", metavar="KEY", help="Add nothing while a live job has this key.")
@field(
    "--unique-for",
    type=span_or_always,
    metavar="SPAN",
    help="Keep the key taken after the end: 31d, always.",
)
@field("--group", metavar="NAME", help="Share its queue's limits for groups with this group.")
@field("--name", metavar="NAME", help="What those that come after it call it.")
@field("--after", multiple=True, metavar="ID", help="Wait for the success of this job.")
@field("--after-failure", multiple=True, metavar="ID", help="Wait for its failure.")
@field("--after-end", multiple=True, metavar="ID", help="Wait for its end. Repeat for several.")
@job_options
@retry_options
@click.option(
    "--wait",
    metavar="[SPAN]",
    is_flag=False,
    flag_value=NO_LIMIT,
    help="Wait for its end, so long at most, and print its result.",
)
@field("--file", metavar="FILE", help="Add the jobs of a file of JSON lines, - for stdin.")
@json_option
@with_client
def add(
    connection: ConnectionOptions,
    *,
    file: str | None,
    wait: str | None,
    as_json: bool,
    **values: Any,
) -> int:
    """Add a job, or many from a file. Prints the id.

    Instants without an offset are in this machine's zone. With --wait it ends when the job has
    ended: 0 when that succeeded, 1 when it failed or was cancelled, 4 when it is not in time.
    """
    body = job_body(values)
    if file is not None:
        if body or wait is not None:
            raise click.UsageError(
                "--file takes all it needs from the file; give nothing beside it"
            )
        add_many(connection, file, as_json=as_json)
        return OK
    if "target" not in body:
        raise click.UsageError(
            "a job needs a target: --task or --url, or --command (or --file for many)"
        )
    if wait is not None:
        return add_and_wait(connection, body, read_patience(wait), as_json=as_json)
    answer = connection.call("job.enqueue", body=body)
    warn_of_unknown_tasks(answer)
    show_json(answer) if as_json else show_message(answer["id"])
    return OK


def job_body(values: Mapping[str, Any]) -> dict[str, Any]:
    edges = [
        {"job": id, "on": end} for end in ("failure", "end") for id in values[f"after_{end}"] or ()
    ]
    after = [*(values["after"] or ()), *edges]
    return {
        **target_body(values),
        **given_options(values, "delay"),
        **instants(values, "run_at", "expires_at"),
        **spec_body(values, JobSpec),
        **({"after": after} if after else {}),
    }


def add_many(connection: ConnectionOptions, file: str, *, as_json: bool) -> None:
    with open_file(file) as lines:
        answers = connection.run(lambda client: enqueue_lines(client, file, lines))
    warn_of_unknown_tasks(*answers)
    if as_json:
        show_json({"ids": [id for answer in answers for id in answer["ids"]]})
        return
    existing = sum(len(answer.get("existing", ())) for answer in answers)
    count = sum(len(answer["ids"]) for answer in answers) - existing
    show_message(f"{count} jobs added" + (f", {existing} were there already" if existing else ""))


async def enqueue_lines(client: Client, file: str, lines: TextIO) -> list[Any]:
    """Enqueue in chunks; jobs added before an error stay, and the message gives their number."""
    answers: list[Any] = []
    numbered = ((n, line) for n, line in enumerate(lines, 1) if line.strip())
    with progress("jobs", count_of(lines)) as advance:
        while chunk := list(islice(numbered, CHUNK)):
            try:
                jobs = [parse_line(line, n) for n, line in chunk]
                answers.append(await client.call("job.enqueue", {}, {"jobs": jobs}))
            except Invalid as error:
                raise with_line_number(error, file, chunk, len(answers) * CHUNK) from error
            except OnbeatError as error:
                added = len(answers) * CHUNK
                error.args = (f"{error} ({added} jobs of {file} had been added before)",)
                raise
            advance(len(chunk))
    return answers


def count_of(lines: TextIO) -> int | None:
    """The number of jobs in a file; None for a pipe, which can be read only once."""
    if not lines.seekable():
        return None
    count = sum(1 for line in lines if line.strip())
    lines.seek(0)
    return count


def parse_line(line: str, number: int) -> msgspec.Raw:
    try:
        result = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Invalid(str(error), f"line {number}") from None
    if not isinstance(result, dict):
        raise Invalid("a job must be a JSON object", f"line {number}")
    return msgspec.Raw(line.encode())


def with_line_number(
    error: Invalid, file: str, chunk: Sequence[tuple[int, str]], added: int
) -> Invalid:
    """The error with the line number in place of the index in the request."""
    head, bracket, rest = error.field.partition("jobs[")
    place, _, field_name = rest.partition("]")
    where = error.field
    message = str(error)
    if bracket and not head and place.isdigit():
        where = f"line {chunk[int(place)][0]}"
        message = message.replace(f"jobs[{place}].", "")
        message = message if field_name.lstrip(".") in message else f"{field_name[1:]}: {message}"
    return Invalid(f"{file}, {where}: {message}; {added} jobs had been added before")


@contextmanager
def open_file(file: str) -> Generator[TextIO]:
    if file == "-":
        yield sys.stdin
        return
    try:
        lines = open(file, encoding="utf-8")  # noqa: PTH123, SIM115  closed below
    except OSError as error:
        raise click.UsageError(f"{file} cannot be read: {error.strerror}") from None
    with lines:
        yield lines


@job.command(
    "list",
    epilog=examples(
        "onbeat job list --state failed",
        "onbeat job list --task mail.welcome --json | jq -r '.jobs[].id'",
    ),
)
@job_filter_options
@limit_option()
@cursor_option
@click.option("--counts", is_flag=True, help="Also count those of each state that match.")
@json_option
@with_client
def list_jobs(connection: ConnectionOptions, *, as_json: bool, **values: Any) -> None:
    """List jobs, newest first."""
    paging = {name: values[name] for name in ("limit", "cursor")}
    if values["counts"]:
        paging["counts"] = True
    answer = connection.call("job.list", {**filters_of(values), **paging})
    if as_json:
        show_json(answer)
        return
    now = local_now()
    rows = [
        (
            plain(result["id"]),
            styled_state(result["state"]),
            plain(in_short(result["run_at"], now)),
        )
        for result in answer["jobs"]
    ]
    if "counts" in answer:
        show_message(counts_line(answer["counts"]))
    targets = [target_words(result["target"]) for result in answer["jobs"]]
    show_with_last(("ID", "STATE", "DUE", "TARGET"), rows, targets, empty="no jobs")
    if answer.get("searched_to"):
        since = in_full(answer["searched_to"], now)
        show_message(f"looked at {answer['searched']:,} jobs, made since {since}")
    tell_cursor(answer)


def counts_line(counts: Mapping[str, Mapping[str, Any]]) -> str:
    """`38 failed, about 1,204,113 succeeded, more than 10,000 waiting`."""
    parts = [
        f"{'about ' * one['about'] or 'more than ' * one['more']}{one['count']:,} {state}"
        for state, one in counts.items()
        if one["count"] or one["more"]
    ]
    return ", ".join(parts) or "none of any state"


def target_words(target: Mapping[str, Any]) -> str:
    if "task" in target:
        return plain(target["task"])
    if "message" in target:
        return plain(f"{target['message']['queue']} at {target['message']['to']}")
    if "notify" in target:
        return plain(f"{target['notify'].get('to', 'notice')} by {target['notify']['channel']}")
    if "command" in target:
        return plain(" ".join(target["command"]))
    http = target.get("http", {})
    return plain(f"{http.get('method', '')} {http.get('url', '').partition('://')[2]}")


@job.command("show")
@click.argument("id")
@json_option
@with_client
def show(connection: ConnectionOptions, *, id: str, as_json: bool) -> None:
    """Show a job with its attempts and its history."""
    answer = connection.call("job.show", {"id": id})
    if as_json:
        show_json(answer)
        return
    now = local_now()
    show_record(job_fields(answer, now))
    show_attempts(answer.get("attempts", []), now)
    show_history(answer.get("history", []), now)


def job_fields(result: Mapping[str, Any], now: datetime) -> dict[str, str]:
    fields = {
        "id": plain(result["id"]),
        "state": styled_state(result["state"]),
        "target": json_text(result["target"]),
        "due": plain(in_full(result["run_at"], now)),
        "attempt": plain(f"{result['attempt']} of {result['attempts_max']}"),
    }
    fields |= {
        name: plain(result[name]) for name in SHORT_FIELDS if result.get(name) not in (None, "")
    }
    fields |= {
        name.removesuffix("_at"): plain(in_full(result[name], now))
        for name in TIMES
        if result.get(name)
    }
    if progress_of := result.get("progress"):
        fields["progress"] = plain(f"{progress_of['done']} of {progress_of['total'] or '?'}")
    for name in ("result", "labels", "after"):
        if result.get(name):
            fields[name] = json_text(result[name])
    if result.get("error"):
        fields["error"] = plain(result["error"].rstrip(), keep_newlines=True)
    return fields


def show_attempts(attempts: Sequence[Mapping[str, Any]], now: datetime) -> None:
    if not attempts:
        return
    heading("Attempts")
    rows = [
        (
            plain(attempt["number"]),
            plain(in_short(attempt["started"], now)),
            plain(attempt["outcome"] or "running"),
            plain((attempt["error"] or "").strip().rpartition("\n")[2]),
        )
        for attempt in attempts
    ]
    show_table(("NO", "STARTED", "OUTCOME", "ERROR"), rows, empty="", right=("NO",))


def show_history(history: Sequence[Mapping[str, Any]], now: datetime) -> None:
    if not history:
        return
    heading("History")
    rows = [
        (
            plain(in_full(step["at"], now)),
            styled_state(step["to"]),
            plain(in_one_line(step.get("cause") or "-")),
        )
        for step in history
    ]
    show_table(("AT", "TO", "CAUSE"), rows, empty="")


def in_one_line(cause: str) -> str:
    """`failed: ValueError: no` of a cause with a traceback, which is shown above."""
    first, *others = cause.strip().split("\n")
    return f"{first.partition(':')[0]}: {others[-1]}" if others else first


@job.command("cancel")
@click.argument("id")
@field("--reason", metavar="TEXT", help="Why, for the history.")
@json_option
@with_client
def cancel(connection: ConnectionOptions, *, id: str, reason: str | None, as_json: bool) -> None:
    """Cancel a waiting job, or ask a running one to stop."""
    body = {"reason": reason} if reason is not None else None
    answer = connection.call("job.cancel", {"id": id}, body)
    request = "asked to stop" if answer["state"] == "running" else answer["state"]
    show_json(answer) if as_json else show_message(request)


@job.command("retry")
@click.argument("id")
@click.option(
    "--dependents/--no-dependents",
    default=True,
    help="Also the jobs that were cancelled because of it.  [default: yes]",
)
@json_option
@with_client
def retry(connection: ConnectionOptions, *, id: str, dependents: bool, as_json: bool) -> None:
    """Make a failed or cancelled job wait again, due now."""
    body = None if dependents else {"dependents": False}
    answer = connection.call("job.retry", {"id": id}, body)
    show_json(answer) if as_json else show_message(answer["state"])


@job.command("reschedule", epilog=examples("onbeat job reschedule 0199… --delay 10m"))
@click.argument("id")
@field("--run-at", metavar="INSTANT", help="When it is due.")
@field("--delay", type=span, metavar="SPAN", help="How long from now it is due; 0s for at once.")
@json_option
@with_client
def reschedule(connection: ConnectionOptions, *, id: str, as_json: bool, **values: Any) -> None:
    """Let a waiting job be due at another time."""
    body = {**given_options(values, "delay"), **instants(values, "run_at")}
    if not body:
        raise click.UsageError("say when it is due: --run-at or --delay")
    answer = connection.call("job.reschedule", {"id": id}, body)
    show_json(answer) if as_json else show_message(in_full(answer["run_at"], local_now()))


@job.command("why")
@click.argument("id")
@json_option
@with_client
def why(connection: ConnectionOptions, *, id: str, as_json: bool) -> None:
    """Explain why a job does not run, what it waits for, and when it may run."""
    answer = connection.call("job.why", {"id": id})
    if as_json:
        show_json(answer)
        return
    show_message(answer["explanation"])
    if answer["may_run_at"]:
        show_message(f"It may run at {in_full(answer['may_run_at'], local_now())}.")
