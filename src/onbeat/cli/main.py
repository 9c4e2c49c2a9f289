"""`onbeat`: the table of commands."""

import os
import sys
from pathlib import Path
from typing import Final

import click

from onbeat.cli.lazy_group import DEBUG, LazyCommand, LazyGroup, Root

EPILOG: Final = """\b
Examples:
  onbeat up app.py
  onbeat schedule add nightly --cron "0 3 * * *" --tz Europe/Berlin --task reports.build
  onbeat job add --task mail.welcome --args '[7]' --delay 10m
  onbeat job list --state failed
  onbeat next "FREQ=MONTHLY;BYDAY=-1FR" --tz America/New_York

\b
Exit codes: 0 ok, 1 the request failed, 2 bad usage or configuration,
3 store or server unreachable, 4 `job add --wait`: the job has not ended in
time, 130 interrupted."""


def version_text() -> str:
    # Imported here: reading the installed packages takes longer than the rest of a command.
    from importlib.metadata import version as version_of  # noqa: PLC0415

    return f"onbeat {version_of('onbeat')}"


def print_version(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:  # noqa: FBT001
    """The callback of `--version`."""
    if wanted:
        click.echo(version_text())
        ctx.exit()


@click.group(
    cls=Root,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    lazy={
        "up": LazyCommand("onbeat.cli.up:up", "Run the service: API, planner, workers."),
        "schedule": LazyCommand(
            "onbeat.cli.schedule_views:schedule", "Schedules: add, list, show, change."
        ),
        "import": LazyCommand(
            "onbeat.cli.schedule_imports:import_group", "Import schedules of other systems."
        ),
        "job": LazyCommand("onbeat.cli.jobs:job", "Jobs: add, list, show, cancel, retry, why."),
        "logs": LazyCommand("onbeat.cli.job_log:logs", "What the handler of a job logged."),
        "failure": LazyCommand(
            "onbeat.cli.failures:failure", "Failures by fault: list, show, silence, replay."
        ),
        "bulk": LazyCommand("onbeat.cli.bulks:bulk", "Actions on many jobs: list, show, stop."),
        "event": LazyCommand("onbeat.cli.events:event", "Events: send, list, show, replay."),
        "notify": LazyCommand("onbeat.cli.notify:notify", "Tell people over a channel."),
        "flow": LazyCommand("onbeat.cli.flows:flow", "Flows: show, cancel, retry."),
        "queue": LazyCommand("onbeat.cli.queues:queue", "Queues: list, pause, resume, limit."),
        "worker": LazyCommand("onbeat.cli.workers:worker", "Workers: list."),
        "dead-letter": LazyCommand(
            "onbeat.cli.dead_letters:dead_letter", "Dead letters: list, show, replay, delete."
        ),
        "alert": LazyCommand("onbeat.cli.alerts:alert", "Alerts: list, silence."),
        "key": LazyCommand("onbeat.cli.access:key", "Keys of the API: make, list, revoke."),
        "secrets": LazyCommand(
            "onbeat.cli.secrets:secrets_group", "Encryption at rest: make keys, rotate them."
        ),
        "audit": LazyCommand("onbeat.cli.access:audit", "Who changed what."),
        "stats": LazyCommand("onbeat.cli.stats:stats", "Counts of jobs and schedules by state."),
        "pulse": LazyCommand("onbeat.cli.pulse:pulse", "Rates, lateness and depths over time."),
        "top": LazyCommand("onbeat.cli.top.command:top", "Watch it run, in the terminal."),
        "load": LazyCommand("onbeat.cli.load:load", "Send jobs at a rate, and measure."),
        "next": LazyCommand("onbeat.cli.recurrence:show_next", "When a rule fires next."),
        "explain": LazyCommand("onbeat.cli.recurrence:explain", "What a rule says, in words."),
        "forecast": LazyCommand(
            "onbeat.cli.forecast:forecast", "Forecast the number of occurrences per hour."
        ),
        "timeline": LazyCommand(
            "onbeat.cli.timeline:timeline", "What ran and what will run, on one axis."
        ),
        "settings": LazyCommand(
            "onbeat.cli.settings:settings", "The settings, and where each was set."
        ),
        "migrate": LazyCommand("onbeat.cli.migrate:migrate", "Bring a store's schema up to date."),
        "backup": LazyCommand("onbeat.cli.backup:backup", "Copy a SQLite store while it is used."),
        "copy": LazyCommand("onbeat.cli.copy:copy", "Copy everything into another store."),
        "cell": LazyCommand("onbeat.cli.cells:cell_group", "Cells of several stores: list, fence."),
        "doctor": LazyCommand("onbeat.cli.doctor:doctor", "Check the installation."),
        "openapi": LazyCommand("onbeat.cli.openapi:openapi", "Print the API's OpenAPI document."),
        "completion": LazyCommand(
            "onbeat.cli.completion:completion", "Print the completion of a shell."
        ),
        "version": LazyCommand("onbeat.cli.main:version", "Print the version."),
    },
    renamed={"dead": "dead-letter"},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=print_version,
    help="Print the version.",
)
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.pass_context
def root(ctx: click.Context, *, debug: bool) -> None:
    """Durable job queue and scheduler for Python."""
    ctx.ensure_object(dict)[DEBUG] = debug


@click.command("version")
def version() -> None:
    """Print the version."""
    click.echo(version_text())


def main() -> None:
    open_closed_streams()
    root.main()


def open_closed_streams() -> None:
    """Let a standard stream that the caller closed lead nowhere: Python has None for it.

    So no file or connection that is opened later gets its number.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115  it stays open


__all__ = ["LazyGroup", "main", "root", "version"]
