"""`onbeat worker`."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

import click

from onbeat.cli.client import ConnectionOptions, json_option, with_client
from onbeat.cli.output import heading, plain, show_json, show_table, styled_state
from onbeat.cli.times import in_short, local_now

JOBS_SHOWN: Final = 10  # of each worker, in text
JOBS_REQUESTED: Final = 1_000  # of each worker, in JSON


@click.group()
def worker() -> None:
    """Workers: live processes that run jobs."""


@worker.command("list")
@json_option
@with_client
def list_workers(connection: ConnectionOptions, *, as_json: bool) -> None:
    """List workers, whether they are alive, and their running jobs."""
    answer = connection.call("worker.list", {"jobs": JOBS_REQUESTED if as_json else JOBS_SHOWN})
    if as_json:
        show_json(answer)
        return
    now = local_now()
    rows = [
        (
            plain(result["host"]),
            plain(result["pid"]),
            styled_state("ok") if result["alive"] else styled_state("warn"),
            plain(f"{result['running']}/{result['concurrency']}"),
            plain(in_short(result["beat_at"], now)),
            plain(", ".join(result["tasks"])),
        )
        for result in answer["workers"]
    ]
    columns = ("HOST", "PID", "ALIVE", "JOBS", "HEARD", "TASKS")
    if rows or not answer["remote"]:
        show_table(columns, rows, empty="no workers", right=("PID", "JOBS"))
    show_running(answer, now)


def show_running(answer: Mapping[str, Any], now: datetime) -> None:
    """The running jobs by worker, oldest start first."""
    rows = list(running_rows(answer, now))
    if rows:
        heading("Running")
        show_table(("WORKER", "ID", "TASK", "STARTED"), rows, empty="")


def running_rows(answer: Mapping[str, Any], now: datetime) -> Iterator[tuple[str, ...]]:
    named = [(f"{result['host']} {result['pid']}", result) for result in answer["workers"]]
    named += [(result["name"], result) for result in answer["remote"]]
    for name, result in named:
        for running in result["jobs"]:
            yield (
                plain(name),
                plain(running["id"]),
                plain(running["task"]),
                plain(in_short(running["started_at"], now)),
            )
        more = result["running"] - len(result["jobs"])
        if more > 0:
            yield plain(name), plain(f"and {more} more"), plain(None), plain(None)
