"""`onbeat queue`, `onbeat worker`, `onbeat stats`."""

from typing import Any, Final

import click

from onbeat.cli.connection import Connection, connects, json_option
from onbeat.cli.output import done, plain, show_json, show_record, show_table, styled
from onbeat.cli.times import in_short, present

COUNTS: Final = ("WAITING", "DUE", "RUNNING")


@click.group()
def queue() -> None:
    """Queues: named lines of jobs."""


@queue.command("list")
@json_option
@connects
def list_queues(connection: Connection, *, as_json: bool) -> None:
    """List queues that have live jobs or are paused."""
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
        )
        for found in answer["queues"]
    ]
    columns = ("QUEUE", "STATUS", *COUNTS, "OLDEST DUE")
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


@click.group()
def worker() -> None:
    """Workers: live processes that run jobs."""


@worker.command("list")
@json_option
@connects
def list_workers(connection: Connection, *, as_json: bool) -> None:
    """List workers and whether they are alive."""
    answer = connection.ask("worker.list")
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
    show_table(columns, rows, empty="no workers", right=("PID", "JOBS"))


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
