"""`onbeat stats`."""

from typing import Any

import click

from onbeat.cli.client import ConnectionOptions, json_option, with_client
from onbeat.cli.output import plain, show_json, show_record


@click.command("stats")
@json_option
@with_client
def stats(connection: ConnectionOptions, *, as_json: bool) -> None:
    """Show counts of jobs and schedules by state."""
    answer = connection.call("stats.show")
    if as_json:
        show_json(answer)
        return
    show_record(
        {
            "jobs": counts(answer["jobs"]),
            "schedules": counts(answer["schedules"]),
            "workers": plain(answer["workers"]),
            "oldest due": plain(f"{answer['oldest_due_seconds']:.1f} s"),
            "unknown tasks": unknown_words(answer),
        }
    )


def unknown_words(answer: dict[str, Any]) -> str:
    more = answer["unknown_tasks_more"]
    return counts(answer["unknown_tasks"]) + (f" and {more} more tasks" if more else "")


def counts(result: dict[str, Any]) -> str:
    return plain(", ".join(f"{count} {name}" for name, count in result.items()))
