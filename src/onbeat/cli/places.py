"""`onbeat queue`, `onbeat worker`, `onbeat stats`."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

import click

from onbeat.cli.bodies import field, given, options
from onbeat.cli.connection import Connection, connects, json_option
from onbeat.cli.examples import examples
from onbeat.cli.output import done, heading, plain, show_json, show_record, show_table, styled
from onbeat.cli.times import in_short, present

COUNTS: Final = ("WAITING", "DUE", "RUNNING")
LIMITS: Final = ("concurrency", "rate", "group_concurrency", "group_rate")
NO_LIMIT_WORDS: Final = {
    "concurrency": "limit of jobs that run at once",
    "rate": "limit of starts",
    "group_concurrency": "limit of jobs of a group",
    "group_rate": "limit of starts of a group",
}
JOBS_SHOWN: Final = 10  # of each worker, in text
JOBS_ASKED: Final = 1_000  # of each worker, in JSON


@click.group()
def queue() -> None:
    """Queues: named lines of jobs."""


@queue.command("list")
@json_option
@connects
def list_queues(connection: Connection, *, as_json: bool) -> None:
    """List queues that have live jobs, are paused or are limited."""
    answer = connection.ask("queue.list")
    if as_json:
        show_json(answer)
        return
    now = present()
    rows = [
        (
            plain(found["name"]),
            styled("paused" if found["paused"] else "active"),
            *(plain(found[count.lower()]) for count in COUNTS),
            plain(in_short(found["oldest_due_at"], now)),
            plain(limits_words(found["limits"])),
        )
        for found in answer["queues"]
    ]
    columns = ("QUEUE", "STATUS", *COUNTS, "OLDEST DUE", "LIMITS")
    show_table(columns, rows, empty="no queues have jobs", right=COUNTS)


@queue.command("pause")
@click.argument("name")
@json_option
@connects
def pause(connection: Connection, *, name: str, as_json: bool) -> None:
    """Give out no more jobs of a queue; what runs, runs on."""
    answer = connection.ask("queue.pause", {"name": name})
    show_json(answer) if as_json else done(f"{answer['name']} paused")


@queue.command("resume")
@click.argument("name")
@json_option
@connects
def resume(connection: Connection, *, name: str, as_json: bool) -> None:
    """Give out jobs of a queue again."""
    answer = connection.ask("queue.resume", {"name": name})
    show_json(answer) if as_json else done(f"{answer['name']} resumed")


def limits_words(limits: Mapping[str, Any]) -> str:
    """`10 at once, 100/s; a group 1 at once; by turns`."""
    own, of_group = bounds_words(limits, ""), bounds_words(limits, "group_")
    turns = limits.get("fair") and "by turns"
    return "; ".join(words for words in (own, of_group and f"a group {of_group}", turns) if words)


def bounds_words(limits: Mapping[str, Any], prefix: str) -> str:
    concurrency, rate = limits.get(f"{prefix}concurrency"), limits.get(f"{prefix}rate")
    return ", ".join(words for words in (concurrency and f"{concurrency} at once", rate) if words)


LIMIT_EPILOG: Final = examples(
    "onbeat queue limit mail --concurrency 10 --rate 100/s",
    "onbeat queue limit tenants --group-concurrency 1 --group-rate 5/m",
    "onbeat queue limit tenants --fair",
    "onbeat queue limit mail --no-rate",
)


def limit_options(command: Any) -> Any:
    """For each limit an option that sets it and one that takes it away, and one for turns."""
    concurrency = {"type": click.IntRange(1, 1_000_000), "metavar": "N"}
    rate = {"metavar": "COUNT/SPAN"}
    return options(
        field("--concurrency", help="Jobs that may run at once.", **concurrency),
        field("--rate", help="Starts in a span, e.g. 100/s, 10/30s.", **rate),
        field("--group-concurrency", help="Jobs of a group that may run at once.", **concurrency),
        field("--group-rate", help="Starts of a group in a span.", **rate),
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
@connects
def limit(connection: Connection, *, name: str, as_json: bool, **values: Any) -> None:
    """Limit what a queue, or each group of it, may give out, over all workers.

    What is not named stays. Without options the limits are shown.
    """
    body = limits_body(values)
    answer = connection.ask("queue.limit", {"name": name}, body)
    if as_json:
        show_json(answer)
        return
    done(f"{answer['name']}: {limits_words(answer['limits']) or 'no limits'}")


def limits_body(values: Mapping[str, Any]) -> dict[str, Any]:
    gone = {name: None for name in LIMITS if values[f"no_{name}"]}
    said = given(values, *LIMITS, "fair")
    for name in gone.keys() & said.keys():
        flag = name.replace("_", "-")
        raise click.UsageError(f"give --{flag} or --no-{flag}, not both")
    return {**said, **gone}


@click.group()
def worker() -> None:
    """Workers: live processes that run jobs."""


@worker.command("list")
@json_option
@connects
def list_workers(connection: Connection, *, as_json: bool) -> None:
    """List workers, whether they are alive, and what each runs since when."""
    answer = connection.ask("worker.list", {"jobs": JOBS_ASKED if as_json else JOBS_SHOWN})
    if as_json:
        show_json(answer)
        return
    now = present()
    rows = [
        (
            plain(found["host"]),
            plain(found["pid"]),
            styled("ok") if found["alive"] else styled("warn"),
            plain(f"{found['running']}/{found['concurrency']}"),
            plain(in_short(found["beat_at"], now)),
            plain(", ".join(found["tasks"])),
        )
        for found in answer["workers"]
    ]
    columns = ("HOST", "PID", "ALIVE", "JOBS", "HEARD", "TASKS")
    if rows or not answer["remote"]:
        show_table(columns, rows, empty="no workers", right=("PID", "JOBS"))
    show_running(answer, now)


def show_running(answer: Mapping[str, Any], now: datetime) -> None:
    """The jobs that run, worker by worker, those begun first in front."""
    rows = list(running_rows(answer, now))
    if rows:
        heading("Running")
        show_table(("WORKER", "ID", "TASK", "STARTED"), rows, empty="")


def running_rows(answer: Mapping[str, Any], now: datetime) -> Iterator[tuple[str, ...]]:
    named = [(f"{found['host']} {found['pid']}", found) for found in answer["workers"]]
    named += [(found["name"], found) for found in answer["remote"]]
    for name, found in named:
        for running in found["jobs"]:
            yield (
                plain(name),
                plain(running["id"]),
                plain(running["task"]),
                plain(in_short(running["started_at"], now)),
            )
        more = found["running"] - len(found["jobs"])
        if more > 0:
            yield plain(name), plain(f"and {more} more"), plain(None), plain(None)


@click.command("stats")
@json_option
@connects
def stats(connection: Connection, *, as_json: bool) -> None:
    """Show counts of jobs and schedules by state."""
    answer = connection.ask("stats.show")
    if as_json:
        show_json(answer)
        return
    show_record(
        {
            "jobs": counts(answer["jobs"]),
            "schedules": counts(answer["schedules"]),
            "workers": plain(answer["workers"]),
            "oldest due": plain(f"{answer['oldest_due_seconds']:.1f} s"),
            "unknown tasks": counts(answer["unknown_tasks"]),
        }
    )


def counts(found: dict[str, Any]) -> str:
    return plain(", ".join(f"{count} {name}" for name, count in found.items()))
